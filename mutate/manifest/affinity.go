package manifest

// The node label that names a node's operating system, and its old form.
const (
	labelOS    = "kubernetes.io/os"
	labelOldOS = "beta.kubernetes.io/os"
)

// affinity says whether an affinity says anything at all, and whether its required node terms, of which one must match,
// all ask for Windows.
func (r *reader) affinity() (there, windows bool, err error) {
	shape, err := r.object(func(key string) error {
		if key != "nodeAffinity" {
			return r.skip()
		}
		_, err := r.object(func(key string) (err error) {
			if key != "requiredDuringSchedulingIgnoredDuringExecution" {
				return r.skip()
			}
			windows, err = r.nodeTerms()
			return err
		})
		return err
	})
	return shape == Filled, windows, err
}

// nodeTerms reads a required node selector.
func (r *reader) nodeTerms() (windows bool, err error) {
	_, err = r.object(func(key string) error {
		if key != "nodeSelectorTerms" {
			return r.skip()
		}
		other := false
		shape, err := r.list(func() error {
			term, err := r.nodeTerm()
			other = other || !term
			return err
		})
		windows = shape == Filled && !other
		return err
	})
	return windows, err
}

// nodeTerm says whether one term, all of whose expressions must match, asks for Windows.
func (r *reader) nodeTerm() (windows bool, err error) {
	err = r.item(func(key string) error {
		if key != "matchExpressions" {
			return r.skip()
		}
		_, err := r.list(func() error {
			one, err := r.expression()
			windows = windows || one
			return err
		})
		return err
	})
	return windows, err
}

// expression says whether one requirement is that the node's operating system is Windows.
func (r *reader) expression() (windows bool, err error) {
	var label, operator, value string
	values := 0
	err = r.item(func(key string) (err error) {
		switch key {
		case "key":
			label, err = r.str()
		case "operator":
			operator, err = r.str()
		case "values":
			_, err = r.list(func() (err error) {
				values++
				value, err = r.str()
				return err
			})
		default:
			err = r.skip()
		}
		return err
	})
	return (label == labelOS || label == labelOldOS) && operator == "In" && values == 1 && value == "windows", err
}
