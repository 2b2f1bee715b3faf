package oci

import (
	"fmt"

	"github.com/distribution/reference"

	"starling.dev/starling/api"
)

// localDomain is the domain of images that come from no registry.
const localDomain = "localhost"

// imageRef is a reference in its full form: with a domain, and with a tag or digest.
type imageRef struct {
	// name is how containerd knows the image: "docker.io/library/nginx:latest".
	name string
	// repository is the name without tag and digest.
	repository string
	domain     string
	// digest is set when the reference itself fixes it.
	digest string
	// given is what the user wrote.
	given string
}

// parseRef completes a reference as people write it.
func parseRef(given string) (imageRef, error) {
	named, err := reference.ParseNormalizedNamed(given)
	if err != nil {
		return imageRef{}, failure(api.Invalid, err, "%q is no image reference (%v); write it as registry.example/name:tag", given, err)
	}
	ref := imageRef{
		given:      given,
		repository: named.Name(),
		domain:     reference.Domain(named),
	}
	if digested, ok := named.(reference.Digested); ok {
		ref.digest = digested.Digest().String()
		ref.name = ref.pinned(ref.digest)
		return ref, nil
	}
	ref.name = reference.TagNameOnly(named).String()
	return ref, nil
}

// local tells whether the image can come from no registry. "localhost:5000/x" has a
// port and so names a registry on this machine.
func (r imageRef) local() bool { return r.domain == localDomain }

// pinned is the name under which the image of one digest stays, whatever becomes of
// its tag.
func (r imageRef) pinned(digest string) string {
	return fmt.Sprintf("%s@%s", r.repository, digest)
}
