// Program probe is what the containers of tests run. Its arguments are done one after the other, and each says on standard
// output what it found:
//
//	env NAME       the variable's value, or "(unset)"
//	cat FILE       the file
//	mode FILE      the file's mode, owner and size
//	write FILE     whether it can be written to
//	say WORDS      WORDS
//	complain WORDS WORDS on standard error
//	status NAME    the line NAME of /proc/self/status
//	hosts NAME     the addresses that NAME has
//	connect ADDR   whether there is somebody
//	fill LINES     as many lines of output
//	whoami         exchanges the subject token as the SDK does, and says the access token's claims
//	exchange FILE  the same with a proof from FILE
//	sleep SECONDS  sleeps
//	wait           sleeps until it is ended, and ends with 0 on SIGTERM
//	eat BYTES      takes so much memory
//	fork N         starts N processes that wait, and says how many it could
//	exit CODE      ends
package main

import (
	"context"
	"encoding/base64"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/lanyard-k8s/lanyard/api/wire"
	"github.com/lanyard-k8s/lanyard/client"
)

func main() {
	args := os.Args[1:]
	if len(args) == 0 {
		args = []string{"say", "nothing to do"}
	}
	ended := make(chan os.Signal, 1)
	if slices.Contains(args, "wait") { // from the beginning: whoever reads what is said before may end it at once
		signal.Notify(ended, syscall.SIGTERM, os.Interrupt)
	}
	for len(args) > 0 {
		verb := args[0]
		args = args[1:]
		if verb == "wait" {
			<-ended
			os.Exit(0)
		}
		if verb == "whoami" {
			whoami(os.Getenv(wire.EnvSubjectTokenFile))
			continue
		}
		if len(args) == 0 {
			fmt.Fprintln(os.Stderr, "probe:", verb, "needs an argument, or is nothing that it can do")
			os.Exit(2)
		}
		do(verb, args[0])
		args = args[1:]
	}
}

func do(verb, arg string) {
	switch verb {
	case "env":
		if value, ok := os.LookupEnv(arg); ok {
			fmt.Println(value)
		} else {
			fmt.Println("(unset)")
		}
	case "cat":
		b, err := os.ReadFile(arg)
		say(string(b), err)
	case "mode":
		info, err := os.Lstat(arg)
		if err != nil {
			say("", err)
			return
		}
		stat := info.Sys().(*syscall.Stat_t)
		fmt.Println(info.Mode(), stat.Uid, stat.Gid, info.Size())
	case "write":
		f, err := os.OpenFile(arg, os.O_WRONLY|os.O_CREATE, 0o600)
		if err == nil {
			err = f.Close()
		}
		say("writable", err)
	case "say":
		fmt.Println(arg)
	case "complain":
		fmt.Fprintln(os.Stderr, arg)
	case "status":
		status(arg)
	case "hosts":
		addresses, err := net.LookupHost(arg)
		say(strings.Join(addresses, " "), err)
	case "connect":
		conn, err := net.DialTimeout("tcp", arg, 10*time.Second)
		if err == nil {
			err = conn.Close()
		}
		say("connected", err)
	case "fill":
		for i := range number(arg) {
			fmt.Println("line", i)
		}
	case "exchange":
		whoami(arg)
	case "sleep":
		time.Sleep(time.Duration(number(arg)) * time.Second)
	case "eat":
		eat(number(arg))
	case "fork":
		fork(number(arg))
	case "exit":
		os.Exit(number(arg))
	default:
		fmt.Fprintln(os.Stderr, "probe: cannot", verb)
		os.Exit(2)
	}
}

func say(what string, err error) {
	if err != nil {
		what = "error: " + err.Error()
	}
	fmt.Println(strings.TrimRight(what, "\n"))
}

func number(arg string) int {
	n, err := strconv.Atoi(arg)
	if err != nil {
		fmt.Fprintln(os.Stderr, "probe:", err)
		os.Exit(2)
	}
	return n
}

func status(name string) {
	b, err := os.ReadFile("/proc/self/status")
	if err != nil {
		say("", err)
		return
	}
	for line := range strings.Lines(string(b)) {
		if value, ok := strings.CutPrefix(line, name+":"); ok {
			fmt.Println(strings.TrimSpace(value))
		}
	}
}

// eat touches every page, so that the memory is really taken.
func eat(bytes int) {
	b := make([]byte, bytes)
	for i := 0; i < len(b); i += 4096 {
		b[i] = 1
	}
	fmt.Println("ate", len(b))
}

func fork(n int) {
	started := 0
	for range n {
		if exec.Command("/proc/self/exe", "wait").Start() == nil {
			started++
		}
	}
	fmt.Println("started", started)
}

// whoami exchanges the proof in a file, and reads the token's claims without verifying them: who they speak for is all that a
// test asks here.
func whoami(file string) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	o, err := client.EnvOptions(os.Getenv)
	if err != nil {
		say("", err)
		return
	}
	o.TokenFile = file
	w, err := client.NewWorkload(o)
	if err != nil {
		say("", err)
		return
	}
	defer w.Close()
	token, err := w.TokenContext(ctx)
	if err != nil {
		say("", err)
		return
	}
	parts := strings.Split(token.AccessToken, ".")
	if len(parts) != 3 {
		say("", fmt.Errorf("the access token has %d parts", len(parts)))
		return
	}
	claims, err := base64.RawURLEncoding.DecodeString(parts[1])
	say(string(claims), err)
}
