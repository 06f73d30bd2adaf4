package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// configurationName names both webhook configurations, see the chart.
const configurationName = "lanyard"

// uninstall deletes both webhook configurations. It tries both whatever becomes of the first.
func uninstall(ctx context.Context, client kubernetes.Interface, stdout io.Writer) error {
	registration := client.AdmissionregistrationV1()
	return errors.Join(
		remove(ctx, stdout, "MutatingWebhookConfiguration", registration.MutatingWebhookConfigurations().Delete),
		remove(ctx, stdout, "ValidatingWebhookConfiguration", registration.ValidatingWebhookConfigurations().Delete),
	)
}

func remove(ctx context.Context, stdout io.Writer, kind string, del func(context.Context, string, metav1.DeleteOptions) error) error {
	what := "deleted"
	err := del(ctx, configurationName, metav1.DeleteOptions{})
	if apierrors.IsNotFound(err) {
		what, err = "already gone", nil
	}
	if err != nil {
		return fmt.Errorf("delete %s %s: %w", kind, configurationName, err)
	}
	_, err = fmt.Fprintf(stdout, "%s %s %s\n", kind, configurationName, what)
	return err
}
