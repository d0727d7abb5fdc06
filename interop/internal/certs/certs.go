// Package certs creates certificates for servers and clients on loopback.
package certs

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

// Files are the paths of a CA certificate, and of a server and a client certificate signed by it.
type Files struct {
	Authority             string
	ServerCert, ServerKey string
	ClientCert, ClientKey string
	// The key pair that signs JWT tokens.
	TokenPublic, TokenKey string
	// Client is the TLS configuration of a client with these files.
	Client *tls.Config
}

// ClientName is the common name of the client certificate.
const ClientName = "client"

// signer is a CA: a certificate and its key.
type signer struct {
	certificate *x509.Certificate
	key         crypto.Signer
}

// New writes the files to a directory. The certificates are valid for an hour, on loopback.
func New(dir string) (*Files, error) {
	c := &Files{
		Authority:  filepath.Join(dir, "ca.pem"),
		ServerCert: filepath.Join(dir, "server.pem"), ServerKey: filepath.Join(dir, "server.key"),
		ClientCert: filepath.Join(dir, "client.pem"), ClientKey: filepath.Join(dir, "client.key"),
		TokenPublic: filepath.Join(dir, "token.pub"), TokenKey: filepath.Join(dir, "token.key"),
	}
	authority, err := newAuthority(c.Authority)
	if err != nil {
		return nil, err
	}
	// A server's gateway connects to the server itself, as a client with the same certificate.
	both := []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}
	err = errors.Join(
		authority.issue("server", 2, both, c.ServerCert, c.ServerKey),
		authority.issue(ClientName, 3, both[1:], c.ClientCert, c.ClientKey),
		newPair(c.TokenPublic, c.TokenKey),
	)
	if err != nil {
		return nil, err
	}
	pair, err := tls.LoadX509KeyPair(c.ClientCert, c.ClientKey)
	pool := x509.NewCertPool()
	pool.AddCert(authority.certificate)
	c.Client = &tls.Config{Certificates: []tls.Certificate{pair}, RootCAs: pool}
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

// newPair writes a private and a public key.
func newPair(publicPath, keyPath string) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	public, publicErr := x509.MarshalPKIXPublicKey(key.Public())
	secret, secretErr := x509.MarshalPKCS8PrivateKey(key)
	return errors.Join(publicErr, secretErr, writePEM(publicPath, "PUBLIC KEY", public), writePEM(keyPath, "PRIVATE KEY", secret))
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
	// Every library reads this format.
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
