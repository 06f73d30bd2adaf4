package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// partOf is the label by which a ConfigMap is known as the exchange's; people have ConfigMaps of that name, too.
const partOf, lanyard = "app.kubernetes.io/part-of", "lanyard"

func newSweep(f *flags) *cobra.Command {
	return &cobra.Command{
		Use:   "sweep KIND/NAMESPACE/NAME ...",
		Short: "Delete what others have made for Lanyard and nobody removes",
		Long: `sweep deletes named objects which belong to no release, since programs have made them: cert-manager's Secrets with our
certificates, the exchange's copies of the CA certificate (ConfigMaps that bear its label) and its Lease. What is gone already is
fine. The chart runs it after it was deleted.`,
		Example: "  webhook sweep Secret/nvsentinel/lanyard-webhook-tls ConfigMap/team-a/lanyard-ca Lease/nvsentinel/lanyard-exchange",
		Args:    cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			client, err := connect(f.kubeconfig)
			if err != nil {
				return err
			}
			return sweep(cmd.Context(), client, args, cmd.OutOrStdout())
		},
	}
}

// sweep deletes every object that objects name. It tries all of them whatever becomes of the first.
func sweep(ctx context.Context, client kubernetes.Interface, objects []string, stdout io.Writer) error {
	var errs []error
	for _, object := range objects {
		what, err := sweepOne(ctx, client, object)
		if err != nil {
			errs = append(errs, fmt.Errorf("delete %s: %w", object, err))
			continue
		}
		if _, err := fmt.Fprintf(stdout, "%s %s\n", object, what); err != nil {
			return err
		}
	}
	return errors.Join(errs...)
}

func sweepOne(ctx context.Context, client kubernetes.Interface, object string) (what string, err error) {
	parts := strings.Split(object, "/")
	if len(parts) != 3 {
		return "", errors.New("it must be named KIND/NAMESPACE/NAME")
	}
	namespace, name, options := parts[1], parts[2], metav1.DeleteOptions{}
	switch parts[0] {
	case "Secret": // without looking at it: nobody gets to read a key for this
		err = client.CoreV1().Secrets(namespace).Delete(ctx, name, options)
	case "Lease":
		err = client.CoordinationV1().Leases(namespace).Delete(ctx, name, options)
	case "ConfigMap":
		m, getErr := client.CoreV1().ConfigMaps(namespace).Get(ctx, name, metav1.GetOptions{})
		if err = getErr; err != nil {
			break
		}
		if m.Labels[partOf] != lanyard {
			return "is somebody else's and stays", nil
		}
		err = client.CoreV1().ConfigMaps(namespace).Delete(ctx, name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &m.UID}})
	default:
		return "", errors.New("only a Secret, a ConfigMap or a Lease can be swept")
	}
	if apierrors.IsNotFound(err) {
		return "already gone", nil
	}
	return "deleted", err
}
