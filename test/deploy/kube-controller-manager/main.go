// kube-controller-manager as it is, but for one thing. Leader migration starts two sets of controllers in one process,
// and from 1.36 on the second set fails: the name of the first one's informers, which only metrics need, is still
// taken, so that the process ends as soon as it has won the second lease. Here the name is set free again.
package main

import (
	"os"
	"sync"
	"time"
	_ "unsafe"

	"k8s.io/client-go/tools/cache"
	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"
	"k8s.io/kubernetes/cmd/kube-controller-manager/app"
)

//go:linkname informerNames k8s.io/client-go/tools/cache.informerNameRegistry
var informerNames struct {
	sync.Mutex
	names map[string]*cache.InformerName
}

func main() {
	go func() {
		for range time.Tick(time.Millisecond) {
			informerNames.Lock()
			clear(informerNames.names)
			informerNames.Unlock()
		}
	}()
	os.Exit(cli.Run(app.NewControllerManagerCommand()))
}
