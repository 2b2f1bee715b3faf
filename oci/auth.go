package oci

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"starling.dev/starling/api"
)

// authFile is the path of a file with credentials for registries, in the form that
// `docker login` and `podman login --authfile` write (containers-auth.json(5)). It is
// read at each pull, so that a change needs no restart. Without a file there are none.
type authFile string

// dockerHub is the name under which Docker's registry stands in such files.
const dockerHub = "https://index.docker.io/v1/"

// credentials returns the user and the secret for a registry's host, or two empty
// strings.
func (f authFile) credentials(host string) (user, secret string, err error) {
	if f == "" {
		return "", "", nil
	}
	raw, err := os.ReadFile(string(f))
	if errors.Is(err, fs.ErrNotExist) {
		return "", "", nil
	}
	if err != nil {
		return "", "", fmt.Errorf("read the credentials for registries: %w", err)
	}
	var file struct {
		Auths map[string]struct{ Auth, Username, Password string }
	}
	if err := json.Unmarshal(raw, &file); err != nil {
		return "", "", f.broken(err.Error())
	}
	names := []string{host, "https://" + host, "http://" + host}
	if host == "docker.io" || host == "registry-1.docker.io" {
		names = append(names, "docker.io", dockerHub)
	}
	for _, name := range names {
		entry, ok := file.Auths[name]
		switch {
		case !ok:
		case entry.Auth == "":
			return entry.Username, entry.Password, nil
		default:
			plain, err := base64.StdEncoding.DecodeString(entry.Auth)
			user, secret, found := strings.Cut(string(plain), ":")
			if err != nil || !found {
				return "", "", f.broken(`auths["` + name + `"].auth must be the base64 of USER:PASSWORD`)
			}
			return user, secret, nil
		}
	}
	return "", "", nil
}

func (f authFile) broken(what string) error {
	return failure(api.Invalid, nil, "the credentials for registries in %s can't be read: %s; write it with `podman login --authfile %[1]s REGISTRY`", string(f), what)
}

// advice tells what a registry that refuses was shown, and where to change that.
func (f authFile) advice(host string) string {
	user, _, err := f.credentials(host)
	switch {
	case f == "":
		return "it needs credentials, and this peer was given none"
	case err != nil:
		return err.Error()
	case user == "":
		return fmt.Sprintf("it needs credentials, and %s has none for it", string(f))
	}
	return fmt.Sprintf("it does not take the credentials of user %s in %s, or that user may not have the image", user, string(f))
}
