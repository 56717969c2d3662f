package main

import (
	"flag"
	"fmt"
	"net/url"
	"os"
	"os/signal"
	"syscall"
	"time"

	"go.etcd.io/etcd/server/v3/embed"
)

// runEtcd serves one member on loopback until a signal. It takes the few flags of the etcd binary that a
// single-member test cluster sets, under their own names, and never syncs to disk: test data need not outlive it.
func runEtcd(args []string) int {
	flags := flag.NewFlagSet("etcd", flag.ContinueOnError)
	dataDir := flags.String("data-dir", "", "folder for the member's data")
	clientURL := flags.String("listen-client-urls", "http://127.0.0.1:0", "URL on which clients are served, unix:// too")
	advertisedURL := flags.String("advertise-client-urls", "http://127.0.0.1:0", "URL told to clients, never unix://")
	peerURL := flags.String("listen-peer-urls", "http://127.0.0.1:0", "URL on which peers are served")
	unsafeNoFsync := flags.Bool("unsafe-no-fsync", false, "do not wait for the disk")
	quota := flags.Int64("quota-backend-bytes", 0, "size of the database at which writes are refused, 0 for etcd's default")
	if err := flags.Parse(args); err != nil {
		return 2
	}
	config := embed.NewConfig()
	config.Dir = *dataDir
	config.UnsafeNoFsync = *unsafeNoFsync
	config.QuotaBackendBytes = *quota
	config.LogLevel = "warn"
	config.WarningUnaryRequestDuration = time.Second // zero would log every request
	for _, target := range []struct {
		text string
		urls []*[]url.URL
	}{
		{*clientURL, []*[]url.URL{&config.ListenClientUrls}},
		{*advertisedURL, []*[]url.URL{&config.AdvertiseClientUrls}},
		{*peerURL, []*[]url.URL{&config.ListenPeerUrls, &config.AdvertisePeerUrls}},
	} {
		parsed, err := url.Parse(target.text)
		if err != nil {
			fmt.Fprintln(os.Stderr, "etcd:", err)
			return 2
		}
		for _, slot := range target.urls {
			*slot = []url.URL{*parsed}
		}
	}
	config.InitialCluster = config.InitialClusterFromName(config.Name)
	server, err := embed.StartEtcd(config)
	if err != nil {
		fmt.Fprintln(os.Stderr, "etcd:", err)
		return 1
	}
	defer server.Close()
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGINT, syscall.SIGTERM)
	select {
	case <-server.Server.ReadyNotify():
	case <-time.After(time.Minute):
		fmt.Fprintln(os.Stderr, "etcd: not ready within a minute")
		return 1
	}
	select {
	case <-stop:
		return 0
	case err := <-server.Err():
		fmt.Fprintln(os.Stderr, "etcd:", err)
		return 1
	}
}
