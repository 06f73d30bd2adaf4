module github.com/lanyard-k8s/lanyard

go 1.26.0
