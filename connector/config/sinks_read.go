package config

import (
	"errors"
	"net"
	"regexp"
	"strconv"
	"time"

	"github.com/lanyard-k8s/lanyard/api/wire"
	"github.com/lanyard-k8s/lanyard/internal/config"
)

// conditionType is what the connector accepts as a condition's type, and so what can be somebody else's.
var conditionType = regexp.MustCompile(wire.ConditionTypePattern)

func (r reader) sinks(sec *config.Section) Sinks {
	s := Sinks{
		Timeout:    milliseconds(sec, "timeoutMilliseconds", 3000, 100, 60_000),
		Log:        LogSink{Enabled: sec.Section("log").Bool("enabled", byRole(r, true, false))},
		Kubernetes: readKubernetes(sec.Section("kubernetes")),
		Store:      r.store(sec.Section("store")),
		Forward:    readForward(sec.Section("forward")),
	}
	if !s.Log.Enabled && !s.Kubernetes.Enabled && !s.Store.Enabled && !s.Forward.Enabled {
		r.root.Fault("sinks", "none is enabled; an accepted event would be lost")
	}
	return s
}

func readKubernetes(sec *config.Section) KubernetesSink {
	return KubernetesSink{
		Enabled: sec.Bool("enabled", true),
		ForeignConditions: sec.Strings("foreignConditions", []string{}, func(s string) error {
			if !conditionType.MatchString(s) {
				return errors.New("must be a condition's type: a letter, then at most 62 letters, digits, '.', '_' and '-'")
			}
			return nil
		}),
		Conditions: sec.Int("maxConditions", 64, 1, 64),
		Writes:     sec.Int("writesPerMinute", 32, 1, 600),
		Events:     sec.Int("eventsPerMinute", 16, 0, 600),
	}
}

func (r reader) store(sec *config.Section) StoreSink {
	s := StoreSink{
		Enabled: sec.Bool("enabled", byRole(r, false, true)),
		Driver:  sec.Enum("driver", SQLite, SQLite, Postgres),
		Path:    file(sec, "path", "/var/lib/lanyard/store/events.db"),
		DSNFile: file(sec, "dsnFile", ""), Retention: 24 * time.Hour * time.Duration(sec.Int("retentionDays", 30, 0, 3650)),
	}
	switch {
	case s.Driver == Postgres && !r.deployment:
		sec.Fault("driver", "postgres is for --role deployment; on every node it would mean one set of database credentials a node")
	case s.Driver == Postgres && s.Enabled && s.DSNFile == "":
		sec.Fault("dsnFile", "must name the file with the data source name when the driver is postgres")
	case s.Driver == SQLite && sec.Has("dsnFile"):
		sec.Fault("dsnFile", "is for the driver postgres; remove it")
	}
	return s
}

// readForward insists on TLS whenever the other side is not a socket of this machine: the token travels there.
func readForward(sec *config.Section) ForwardSink {
	f := ForwardSink{
		Enabled: sec.Bool("enabled", false), Socket: file(sec, "socket", ""), Address: sec.Text("address", ""),
		CAFile: file(sec, "caFile", ""), ServerName: sec.Text("serverName", ""), TokenFile: file(sec, "tokenFile", ""),
	}
	if f.Address != "" && !hostPort(f.Address) {
		sec.Fault("address", "must be host:port without a scheme, such as lanyard-connector.nvsentinel.svc:50051")
	}
	switch {
	case f.Socket != "" && f.Address != "":
		sec.Fault("address", "stands beside socket; keep one of them")
	case f.Enabled && f.Socket == "" && f.Address == "":
		sec.Fault("enabled", "needs socket or address beside it")
	case f.Socket != "" && (f.CAFile != "" || f.ServerName != ""):
		sec.Fault("socket", "takes neither caFile nor serverName, which are for address")
	case f.Address != "":
		requireFile(sec, "caFile", f.CAFile, "the certificates that the other side's is checked against; events and tokens are never sent in clear text")
		requireFile(sec, "tokenFile", f.TokenFile, "the token to present; a deployment accepts no caller without one")
	}
	return f
}

func requireFile(sec *config.Section, key, value, what string) {
	if value == "" && !sec.Has(key) {
		sec.Fault(key, "must be given with address: a file with %s", what)
	}
}

func hostPort(s string) bool {
	host, port, err := net.SplitHostPort(s)
	n, numErr := strconv.ParseUint(port, 10, 16)
	return err == nil && host != "" && numErr == nil && n > 0
}
