// Package obs is how the programs show what they do: JSON logs by zap behind logr, a Prometheus registry of their own, and
// the listener with /metrics, /healthz and /readyz. No token, header, raw object or environment value may reach either.
package obs

import (
	"fmt"
	"io"

	"github.com/go-logr/logr"
	"github.com/go-logr/zapr"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// The keys of log lines that more than one room writes. One spelling lets one query find a request everywhere.
const (
	KeyCaller    = "caller"    // the authenticated username that a request came from
	KeyNamespace = "namespace" // the request's namespace
	KeyUID       = "uid"       // the request's or the object's UID
	KeyReasons   = "reasons"   // typed refusal reasons
	KeyFields    = "fields"    // field paths, never values
	KeyAddr      = "addr"      // a listen address
	KeyConfig    = "config"    // the effective configuration, redacted
	KeyTask      = "task"      // a long-running part of a program
)

// Levels are the words that NewLogger takes.
func Levels() []string { return []string{"debug", "info", "error"} }

// NewLogger writes one JSON object a line to w. The level is "debug", "info" or "error"; debug shows logr's V(1) and above,
// up to V(9). The source position goes under "source", since "caller" means the person who called.
func NewLogger(w io.Writer, level string) (logr.Logger, error) {
	var at zapcore.Level
	switch level {
	case "debug":
		at = zapcore.Level(-9)
	case "info":
		at = zapcore.InfoLevel
	case "error":
		at = zapcore.ErrorLevel
	default:
		return logr.Logger{}, fmt.Errorf("log level %q: must be one of %v", level, Levels())
	}
	enc := zap.NewProductionEncoderConfig()
	enc.TimeKey, enc.EncodeTime = "time", zapcore.RFC3339NanoTimeEncoder
	enc.CallerKey, enc.MessageKey = "source", "message"
	enc.EncodeLevel = func(l zapcore.Level, out zapcore.PrimitiveArrayEncoder) {
		zapcore.LowercaseLevelEncoder(max(l, zapcore.DebugLevel), out) // logr's V(2) and above have no name in zap
	}
	core := zapcore.NewCore(zapcore.NewJSONEncoder(enc), zapcore.Lock(zapcore.AddSync(visible{w})), at)
	return zapr.NewLogger(zap.New(core, zap.AddCaller())), nil
}
