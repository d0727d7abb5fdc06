package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"

	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
)

// security is the transport of all connections: plaintext, or TLS with a new certificate.
type security struct {
	cert, key string
	config    *tls.Config
}

// connSecurity is set once at the start.
var connSecurity security

func (s security) scheme() string {
	if s.config == nil {
		return "http"
	}
	return "https"
}

func (s security) flags() []string {
	if s.config == nil {
		return nil
	}
	return []string{"--cert-file=" + s.cert, "--key-file=" + s.key}
}

func (s security) credentials() credentials.TransportCredentials {
	if s.config == nil {
		return insecure.NewCredentials()
	}
	return credentials.NewTLS(s.config.Clone())
}

// secured creates a certificate for loopback with a P-256 key, as most servers have.
func secured(dir string) (s security, err error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return s, err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "servebench"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		return s, err
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return s, err
	}
	s = security{cert: filepath.Join(dir, "cert.pem"), key: filepath.Join(dir, "key.pem")}
	for path, block := range map[string]*pem.Block{s.cert: {Type: "CERTIFICATE", Bytes: der}, s.key: {Type: "PRIVATE KEY", Bytes: private}} {
		if err := os.WriteFile(path, pem.EncodeToMemory(block), 0o600); err != nil {
			return s, err
		}
	}
	certificate, err := x509.ParseCertificate(der)
	if err != nil {
		return s, err
	}
	roots := x509.NewCertPool()
	roots.AddCert(certificate)
	s.config = &tls.Config{RootCAs: roots}
	return s, nil
}
