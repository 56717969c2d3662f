// The versions are those of test/envtest/control-plane: it is built with -modfile.
module cloud-controller-host/test/deploy/kube-controller-manager

go 1.26.0
