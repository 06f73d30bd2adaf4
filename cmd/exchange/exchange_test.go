package main

import (
	"os"
	"strconv"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/lanyard-k8s/lanyard/test/script"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"exchange": main})
}

func TestScripts(t *testing.T) {
	t.Parallel()
	group := map[string]string{"GROUP": strconv.Itoa(os.Getegid())}
	testscript.Run(t, script.Params([]string{"PORT", "ADMIN", "METRICS"}, group, nil))
}
