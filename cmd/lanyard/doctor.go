package main

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/lanyard-k8s/lanyard/doctor"
	"github.com/lanyard-k8s/lanyard/doctor/intake"
)

const doctorLong = `doctor reads a cluster and says what is missing or dangerous in its installation of Lanyard: certificates, the webhook's
entries, policies, labels and lists of namespaces, who can go around the guards, and pods and jobs that were created while a
guard was away. It changes nothing, and of Secrets it uses the public certificate alone. What it may not read it says.

The program ends with 0 when nothing fails, 1 when something does, 2 when the cluster could not be examined.`

const doctorExample = `  # Examine the cluster of the current context
  lanyard doctor

  # Another context, and an installation in another namespace
  lanyard doctor --context staging -n lanyard

  # Only what fails, for a program
  lanyard doctor -o json | jq '.[] | select(.severity == "fail")'`

// The formats of doctor.
const outputText = "text"

// longestRequest bounds one call to the API server.
const longestRequest = 30 * time.Second

// doctorFlags are the flags as they were given.
type doctorFlags struct {
	kubeconfig string
	context    string
	namespace  string
	secret     string
	config     string
	output     string
	color      string
}

func doctorCommand(s streams) *cobra.Command {
	var f doctorFlags
	cmd := &cobra.Command{
		Use:     "doctor",
		Short:   "Examine a cluster's installation of Lanyard",
		Long:    doctorLong,
		Example: doctorExample,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return runDoctor(cmd, f, s)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&f.kubeconfig, "kubeconfig", "", "kubeconfig `file`; the default is $KUBECONFIG, then ~/.kube/config")
	flags.StringVar(&f.context, "context", "", "`context` of the kubeconfig; the default is its current one")
	flags.StringVarP(&f.namespace, "namespace", "n", "", "`namespace` of the installation; the default is where the webhook's entries lead")
	flags.StringVar(&f.secret, "webhook-secret", intake.DefaultSecret, "`name` of the Secret with the webhook's serving certificate")
	flags.StringVar(&f.config, "config", "", "the webhook's configuration `file`, in place of the one in the cluster")
	flags.StringVarP(&f.output, "output", "o", outputText, "`format`: text or json")
	flags.StringVar(&f.color, "color", colorAuto, "`when` to colour the text: auto (on a terminal, unless NO_COLOR is set), always or never")
	complete(cmd, "output", outputText, outputJSON)
	complete(cmd, "color", colorAuto, colorAlways, colorNever)
	return cmd
}

// runDoctor takes the snapshot, examines it and prints the findings.
func runDoctor(cmd *cobra.Command, f doctorFlags, s streams) error {
	if err := oneOf("output", f.output, outputText, outputJSON); err != nil {
		return err
	}
	paint, err := newPainter(f.color, s.out)
	if err != nil {
		return err
	}
	cluster, err := connect(f)
	if err != nil {
		return err
	}
	options := intake.Options{Release: f.namespace, Secret: f.secret, Load: loadConfigured}
	if f.config != "" {
		if options.Config, err = readFile(f.config, nil); err != nil {
			return err
		}
	}
	snapshot, err := intake.Take(cmd.Context(), cluster, options, time.Now())
	if err != nil {
		return err
	}
	findings := doctor.Examine(snapshot)
	if err := printFindings(s.out, f.output, paint, findings); err != nil {
		return err
	}
	if doctor.Failed(findings) {
		return codedError{code: exitFound}
	}
	return nil
}

// connect reads the kubeconfig as kubectl does.
func connect(f doctorFlags) (intake.Cluster, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = f.kubeconfig
	overrides := &clientcmd.ConfigOverrides{CurrentContext: f.context}
	config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, overrides).ClientConfig()
	if err != nil {
		return intake.Cluster{}, fmt.Errorf("reading the kubeconfig: %w", err)
	}
	return newCluster(config)
}

func newCluster(config *rest.Config) (intake.Cluster, error) {
	config.Timeout = longestRequest
	config.WarningHandler = rest.NoWarnings{}
	config.UserAgent = "lanyard/" + version() + " doctor"
	config.QPS, config.Burst = 50, 100
	kube, err := kubernetes.NewForConfig(config)
	if err != nil {
		return intake.Cluster{}, fmt.Errorf("making a client: %w", err)
	}
	objects, err := dynamic.NewForConfig(config)
	if err != nil {
		return intake.Cluster{}, fmt.Errorf("making a client: %w", err)
	}
	return intake.Cluster{Kube: kube, Dynamic: objects}, nil
}
