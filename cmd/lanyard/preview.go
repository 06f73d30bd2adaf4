package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/lanyard-k8s/lanyard/preview"
)

const previewLong = `preview says, without a cluster, what Lanyard's webhook would do with the objects of a manifest: the object as it would
be admitted, as a diff, or every reason for which it would be refused. For a workload, its pod template is shown as the
pods made from it would be injected. Policies in the API server, which look at who creates an object, are not asked.

Say who the pods are with --as, or give the webhook's configuration and the namespace's labels, and let the lists decide:

  --as publisher     as a publisher: by label lanyard.dev/role=publisher in a namespace labelled
                     lanyard.dev/publishers=enabled, or by the list of publishers
  --as job           as in a namespace labelled lanyard.dev/jobs=managed

kube-system, kube-public and kube-node-lease are never served; other namespaces that an installation excludes are known to
its cluster alone.

The program ends with 0 when everything would be admitted, 1 when something would be refused, 2 when something could not
be read. Documents behind a bad one are still looked at.`

const previewExample = `  # What does a job look like with its token?
  lanyard preview --as job -f job.yaml

  # Will this pod be refused? Read from standard input.
  kubectl get pod trainer -o yaml | lanyard preview --as job -f -

  # Decide as the cluster would: the webhook's configuration and the namespace's labels
  lanyard preview --config webhook.yaml --namespace-labels lanyard.dev/jobs=managed -n ml -f job.yaml

  # The webhook's patch, for a program
  lanyard preview --as publisher -f monitor.yaml -o patch`

// previewFlags are the flags as they were given.
type previewFlags struct {
	files     []string
	as        []string
	config    string
	labels    map[string]string
	hasLabels bool
	namespace string
	user      string
	output    string
	color     string
}

func previewCommand(s streams) *cobra.Command {
	var f previewFlags
	cmd := &cobra.Command{
		Use:     "preview -f FILE (--as ROLE | --config FILE [--namespace-labels K=V,...])",
		Short:   "Show what the webhook would do with a manifest",
		Long:    previewLong,
		Example: previewExample,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return fmt.Errorf("%q: give every manifest with -f", args[0])
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			f.hasLabels = cmd.Flags().Changed("namespace-labels")
			return runPreview(f, s)
		},
	}
	flags := cmd.Flags()
	flags.StringArrayVarP(&f.files, "filename", "f", nil, "`file` with YAML or JSON documents; - is standard input; may be repeated")
	flags.StringSliceVar(&f.as, "as", nil, "`role` of the pods: publisher or job; both may be given")
	flags.StringVar(&f.config, "config", "", "the webhook's configuration `file`; without it the defaults are taken")
	flags.StringToStringVar(&f.labels, "namespace-labels", nil, "the namespace's `labels`, which decide who the pods are when --as is not given")
	flags.StringVarP(&f.namespace, "namespace", "n", "default", "`namespace` of objects that name none")
	flags.StringVar(&f.user, "user", preview.DefaultUsername, "`username` in the creator stamp")
	flags.StringVarP(&f.output, "output", "o", outputDiff, "`format`: diff, patch (RFC 6902, one array a line for each document), yaml or json")
	flags.StringVar(&f.color, "color", colorAuto, "`when` to colour a diff: auto (on a terminal, unless NO_COLOR is set), always or never")
	complete(cmd, "as", "publisher", "job")
	complete(cmd, "output", outputs()...)
	complete(cmd, "color", colorAuto, colorAlways, colorNever)
	return cmd
}

// complete lets the shell offer a flag's values.
func complete(cmd *cobra.Command, flag string, values ...string) {
	// The error says that the flag does not exist, or has a completion already: neither can happen here.
	_ = cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp))
}

// runPreview previews every document of every file. The worst outcome becomes the exit code.
func runPreview(f previewFlags, s streams) error {
	previewer, err := newPreviewer(f)
	if err != nil {
		return err
	}
	report, err := newReport(f, s)
	if err != nil {
		return err
	}
	for _, name := range f.files {
		data, err := readFile(name, s.in)
		if err != nil {
			report.fault(err)
			continue
		}
		docs, faults := preview.Read(sourceName(name), data)
		for _, fault := range faults {
			report.fault(fault)
		}
		for _, d := range docs {
			report.result(previewer.Preview(d))
		}
		if len(docs) == 0 && len(faults) == 0 {
			report.fault(fmt.Errorf("%s: the file holds no document", sourceName(name)))
		}
	}
	return report.close()
}

func readFile(name string, stdin io.Reader) ([]byte, error) {
	if name == "-" {
		data, err := io.ReadAll(stdin)
		if err != nil {
			return nil, fmt.Errorf("reading standard input: %w", err)
		}
		return data, nil
	}
	data, err := os.ReadFile(name)
	var pathErr *os.PathError
	if errors.As(err, &pathErr) {
		return nil, fmt.Errorf("reading %s: %w", name, pathErr.Err)
	}
	return data, err
}

func sourceName(file string) string {
	if file == "-" {
		return "standard input"
	}
	return file
}

// oneOf refuses a flag's value that is not among the allowed ones.
func oneOf(flag, value string, allowed ...string) error {
	for _, a := range allowed {
		if value == a {
			return nil
		}
	}
	return fmt.Errorf("--%s %q is unknown: use %s", flag, value, strings.Join(allowed, ", "))
}
