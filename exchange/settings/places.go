package settings

import (
	"strings"
	"time"

	"github.com/lanyard-k8s/lanyard/api/wire"
	"github.com/lanyard-k8s/lanyard/internal/config"
	"github.com/lanyard-k8s/lanyard/internal/mint"
)

// signing reads where the keys are. Beside docker they have a place by default, and no Secret can be one.
func signing(sec *config.Section, ttl time.Duration, d Docker) Keys {
	words := make([]string, 0, len(mint.Algs()))
	for _, a := range mint.Algs() {
		words = append(words, string(a))
	}
	k := Keys{
		Alg:       mint.Alg(sec.Enum("algorithm", string(mint.ES256), words...)),
		Directory: directory(sec, "directory"),
		Timing: mint.Timing{
			MaxAge: seconds(sec, "maxAgeSeconds", 300, 1, 3600), TTL: ttl, Leeway: mint.DefaultLeeway,
			Retention: seconds(sec, "retentionSeconds", 3600, 1, 7*day), Every: seconds(sec, "rotateEverySeconds", 30*day, 0, 366*day),
		},
	}
	secret := sec.Text("secret", "")
	if d.Enabled && k.Directory == "" {
		k.Directory = d.StateDirectory + "/keys"
	}
	namespace, name, found := strings.Cut(secret, "/")
	switch {
	case d.Enabled && sec.Has("secret"):
		sec.Fault("secret", "belongs to Kubernetes; beside docker the keys are in keys.directory")
	case secret == "" && k.Directory == "":
		sec.Fault("secret", `must be given as "namespace/name", or keys.directory instead`)
	case secret != "" && k.Directory != "":
		sec.Fault("secret", "and keys.directory are two places; name one")
	case secret != "" && (!found || !wire.DNSLabel(namespace) || !wire.DNSSubdomain(name)):
		sec.Fault("secret", `must be "namespace/name"`)
	default:
		k.Namespace, k.Secret = namespace, name
	}
	t := k.Timing
	if t.Retention < t.TTL {
		sec.Fault("retentionSeconds", "must be at least tokenSeconds (%d), or valid tokens could not be verified", int64(t.TTL/time.Second))
	}
	if t.Every != 0 && t.Every <= 2*t.MaxAge {
		sec.Fault("rotateEverySeconds", "must be more than twice maxAgeSeconds (%d), or a key would sign before it is known; 0 never rotates", int64(2*t.MaxAge/time.Second))
	}
	return k
}

func store(sec *config.Section, d Docker) Store {
	s := Store{
		Driver:         Driver(sec.Enum("driver", string(SQLite), string(SQLite), string(Postgres))),
		Directory:      directory(sec, "directory"),
		ConnectionFile: directory(sec, "connectionFile"),
		ListenFile:     directory(sec, "listenConnectionFile"),
		Connections:    sec.Int("maxConnections", 8, 1, 256),
	}
	if d.Enabled && s.Driver == Postgres {
		sec.Fault("driver", "must be sqlite beside docker, which is one process on one machine")
		return s
	}
	if d.Enabled && s.Directory == "" {
		s.Directory = d.StateDirectory + "/store"
	}
	switch s.Driver {
	case SQLite:
		if s.Directory == "" {
			sec.Fault("directory", "must be given: the directory of the SQLite database")
		}
		for _, key := range []string{"connectionFile", "listenConnectionFile", "maxConnections"} {
			if sec.Has(key) {
				sec.Fault(key, "is a setting of driver postgres; remove it")
			}
		}
	case Postgres:
		if s.ConnectionFile == "" {
			sec.Fault("connectionFile", "must be given: the file that holds the connection string")
		}
		if sec.Has("directory") {
			sec.Fault("directory", "is a setting of driver sqlite; remove it")
		}
	}
	return s
}
