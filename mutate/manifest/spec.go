package manifest

func (r *reader) spec() (Spec, error) {
	var s Spec
	shape, err := r.object(func(key string) (err error) {
		switch key {
		case "containers":
			s.Containers, err = r.containers(&s)
		case "initContainers":
			s.InitContainers, err = r.containers(&s)
		case "ephemeralContainers":
			s.EphemeralContainers, err = r.containers(&s)
		case "volumes":
			s.VolumesShape, err = r.list(func() error {
				v, err := r.volume()
				s.Volumes = append(s.Volumes, v)
				return err
			})
		default:
			err = r.specRest(&s, key)
		}
		return err
	})
	s.Shape = shape
	if s.ServiceAccountName == "" {
		s.ServiceAccountName = s.account
	}
	return s, err
}

// specRest reads the members of a spec that are not lists of containers or volumes.
func (r *reader) specRest(s *Spec, key string) (err error) {
	switch key {
	case "serviceAccountName":
		s.ServiceAccountName, err = r.str()
	case "serviceAccount": // the old name of the same field; the API server fills in the new one from it
		s.account, err = r.str()
	case "os":
		_, err = r.object(func(key string) (err error) {
			if key != "name" {
				return r.skip()
			}
			s.OS, err = r.str()
			return err
		})
	case "nodeSelector":
		err = r.nodeSelector(s)
	case "affinity":
		s.HasAffinity, s.WindowsAffinity, err = r.affinity()
	case "terminationGracePeriodSeconds":
		s.GracePeriodSeconds, err = r.whole()
	case "securityContext":
		err = r.security(s)
	default:
		err = r.skip()
	}
	return err
}

func (r *reader) nodeSelector(s *Spec) error {
	shape, err := r.object(func(key string) error {
		v, err := r.str()
		if key == labelOS || (key == labelOldOS && s.NodeOS == "") {
			s.NodeOS = v
		}
		return err
	})
	s.HasNodeSelector = shape == Filled
	return err
}

// security looks for Windows options in a security context, the pod's or a container's.
func (r *reader) security(s *Spec) error {
	_, err := r.object(func(key string) error {
		if key != "windowsOptions" {
			return r.skip()
		}
		there, err := r.present()
		s.WindowsOptions = s.WindowsOptions || there
		return err
	})
	return err
}
