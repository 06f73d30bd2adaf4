package webhook

// The fields of a review, object by object. Each function returns the number of the name in its object, see parser.object.

func (rv *review) topField(p *parser, name string) (int, error) {
	switch name {
	case "kind":
		return 0, p.text(&rv.kind)
	case "apiVersion":
		return 1, p.text(&rv.apiVersion)
	case "request":
		if p.dec.PeekKind() == 'n' {
			return 2, malformed("request is null")
		}
		return 2, p.object(rv.requestField)
	default:
		return -1, nil
	}
}

func (rv *review) requestField(p *parser, name string) (int, error) {
	switch name {
	case "uid":
		if rv.uid != "" { // the answer goes to the first
			return 0, errTwice
		}
		return 0, p.text(&rv.uid)
	case "kind":
		return 1, p.object(rv.kindField)
	case "resource":
		return 2, p.object(rv.resourceField)
	case "subResource":
		return 3, p.text(&rv.subresource)
	case "namespace":
		return 4, p.text(&rv.namespace)
	case "operation":
		return 5, p.text(&rv.operation)
	case "userInfo":
		return 6, p.object(rv.userField)
	case "dryRun":
		return 7, p.bool(&rv.dryRun)
	case "object":
		return 8, p.raw(&rv.object)
	case "oldObject":
		return 9, p.raw(&rv.oldObject)
	default:
		return -1, nil
	}
}

func (rv *review) kindField(p *parser, name string) (int, error) {
	switch name {
	case "group":
		return 0, p.text(&rv.objectKind.Group)
	case "kind":
		return 1, p.text(&rv.objectKind.Kind)
	default:
		return -1, nil
	}
}

func (rv *review) resourceField(p *parser, name string) (int, error) {
	switch name {
	case "group":
		return 0, p.text(&rv.group)
	case "resource":
		return 1, p.text(&rv.resource)
	default:
		return -1, nil
	}
}

func (rv *review) userField(p *parser, name string) (int, error) {
	switch name {
	case "username":
		return 0, p.text(&rv.username)
	case "groups":
		return 1, p.texts(&rv.groups)
	default:
		return -1, nil
	}
}
