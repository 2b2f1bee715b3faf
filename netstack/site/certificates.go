package site

import (
	"crypto/tls"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"
)

// files are certificates that people put on the machine. A file that changed is read again
// at the next handshake.
type files struct {
	mu   sync.Mutex // guards what follows
	read map[TLS]fileCertificate
}

type fileCertificate struct {
	certificate *tls.Certificate
	changed     [2]time.Time // of the certificate and of the key
}

func (f *files) get(t TLS) (*tls.Certificate, error) {
	var changed [2]time.Time
	for i, name := range []string{t.Certificate, t.Key} {
		info, err := os.Stat(name)
		if err != nil {
			return nil, err
		}
		changed[i] = info.ModTime()
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if have, ok := f.read[t]; ok && have.changed == changed {
		return have.certificate, nil
	}
	c, err := tls.LoadX509KeyPair(t.Certificate, t.Key)
	if err != nil {
		return nil, fmt.Errorf("read the certificate %s: %w", t.Certificate, err)
	}
	f.read[t] = fileCertificate{&c, changed}
	return &c, nil
}

// certificate finds the certificate for a client that names a host.
func (s *Server) certificate(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
	host := strings.ToLower(strings.TrimSuffix(hello.ServerName, "."))
	site, ok := s.handler.table.Load().site(host)
	if !ok || !site.TLS.On() {
		return nil, fmt.Errorf("no site with a certificate has the host %q", host)
	}
	if site.TLS.Certificate != "" {
		return s.files.get(site.TLS)
	}
	if s.acme == nil {
		return nil, errors.New("this machine has no place for certificates")
	}
	return s.acme.certificate(hello, site.TLS.ACME)
}
