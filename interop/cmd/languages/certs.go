package main

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

// certificates are files: an authority's certificate, and those of a server and of a client that it has signed.
type certificates struct {
	authority             string
	serverCert, serverKey string
	clientCert, clientKey string
	// client is how a client of ours uses them.
	client *tls.Config
}

// signer is who signs: a certificate and its key.
type signer struct {
	certificate *x509.Certificate
	key         crypto.Signer
}

// newCertificates writes them below a folder. They are good for an hour, and for loopback.
func newCertificates(dir string) (*certificates, error) {
	c := &certificates{
		authority:  filepath.Join(dir, "ca.pem"),
		serverCert: filepath.Join(dir, "server.pem"), serverKey: filepath.Join(dir, "server.key"),
		clientCert: filepath.Join(dir, "client.pem"), clientKey: filepath.Join(dir, "client.key"),
	}
	authority, err := newAuthority(c.authority)
	if err != nil {
		return nil, err
	}
	// A server asks itself on behalf of its gateway, as a client with the same certificate.
	both := []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}
	err = errors.Join(
		authority.issue("server", 2, both, c.serverCert, c.serverKey),
		authority.issue("client", 3, both[1:], c.clientCert, c.clientKey),
	)
	if err != nil {
		return nil, err
	}
	pair, err := tls.LoadX509KeyPair(c.clientCert, c.clientKey)
	pool := x509.NewCertPool()
	pool.AddCert(authority.certificate)
	c.client = &tls.Config{Certificates: []tls.Certificate{pair}, RootCAs: pool}
	return c, err
}

func newAuthority(path string) (*signer, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	template := template("authority", 1)
	template.IsCA, template.BasicConstraintsValid = true, true
	template.KeyUsage = x509.KeyUsageCertSign | x509.KeyUsageCRLSign
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, err
	}
	certificate, err := x509.ParseCertificate(der)
	return &signer{certificate, key}, errors.Join(err, writePEM(path, "CERTIFICATE", der))
}

func (s *signer) issue(name string, serial int64, usage []x509.ExtKeyUsage, certPath, keyPath string) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	template := template(name, serial)
	template.KeyUsage, template.ExtKeyUsage = x509.KeyUsageDigitalSignature, usage
	template.DNSNames, template.IPAddresses = []string{"localhost"}, []net.IP{net.IPv4(127, 0, 0, 1)}
	der, err := x509.CreateCertificate(rand.Reader, template, s.certificate, key.Public(), s.key)
	if err != nil {
		return err
	}
	// In this form every library reads it.
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	return errors.Join(err, writePEM(certPath, "CERTIFICATE", der), writePEM(keyPath, "PRIVATE KEY", secret))
}

func template(name string, serial int64) *x509.Certificate {
	return &x509.Certificate{
		SerialNumber: big.NewInt(serial),
		Subject:      pkix.Name{CommonName: name, Organization: []string{"interop"}},
		NotBefore:    time.Now().Add(-time.Minute),
		NotAfter:     time.Now().Add(time.Hour),
	}
}

func writePEM(path, kind string, der []byte) error {
	return os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600)
}
