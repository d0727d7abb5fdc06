package main

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"io"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

// certificates holds the self-signed certificate of a server, which clients trust.
type certificates struct {
	certFile, keyFile string
	pool              *x509.CertPool
}

func makeCertificates(dir string) (*certificates, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		SerialNumber:          big.NewInt(1),
		Subject:               pkix.Name{CommonName: "hostile"},
		NotBefore:             time.Now().Add(-time.Hour),
		NotAfter:              time.Now().Add(24 * time.Hour),
		KeyUsage:              x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage:           []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		IsCA:                  true,
		BasicConstraintsValid: true,
		IPAddresses:           []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		return nil, err
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, err
	}
	made := &certificates{certFile: filepath.Join(dir, "server.crt"), keyFile: filepath.Join(dir, "server.key")}
	err = errors.Join(writePEM(made.certFile, "CERTIFICATE", der), writePEM(made.keyFile, "PRIVATE KEY", secret))
	if err != nil {
		return nil, err
	}
	made.pool, err = readPool(made.certFile)
	return made, err
}

func writePEM(path, kind string, bytes []byte) error {
	return os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: bytes}), 0o600)
}

func readPool(path string) (*x509.CertPool, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(text) {
		return nil, errors.New("found no certificate in " + path)
	}
	return pool, nil
}

// clientHello returns the first TLS record of a client.
func clientHello() ([]byte, error) {
	ours, theirs := net.Pipe()
	defer ours.Close()
	go tls.Client(theirs, &tls.Config{ServerName: "127.0.0.1", NextProtos: []string{"h2"}}).Handshake()
	header := make([]byte, 5)
	if _, err := io.ReadFull(ours, header); err != nil {
		return nil, err
	}
	body := make([]byte, int(header[3])<<8|int(header[4]))
	if _, err := io.ReadFull(ours, body); err != nil {
		return nil, err
	}
	return bytes.Join([][]byte{header, body}, nil), nil
}
