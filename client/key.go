package client

import (
	"starling.dev/starling/api"
	apiv1 "starling.dev/starling/api/v1"
)

// KeyTo writes a key for the wire.
func KeyTo(k api.Key) *apiv1.Key {
	return &apiv1.Key{Kind: k.Kind, Namespace: k.Namespace, Name: k.Name}
}

// KeyOf reads a key from the wire.
func KeyOf(k *apiv1.Key) api.Key {
	return api.Key{Kind: k.GetKind(), Namespace: k.GetNamespace(), Name: k.GetName()}
}
