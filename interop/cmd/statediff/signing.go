package main

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// keyBits is the usual size of an RSA key.
const keyBits = 2048

// signing writes a key below a directory, and returns the flag that makes a server sign its tokens
// with it.
func signing(dir string) (string, error) {
	key, err := rsa.GenerateKey(rand.Reader, keyBits)
	if err != nil {
		return "", err
	}
	half, err := x509.MarshalPKIXPublicKey(&key.PublicKey)
	if err != nil {
		return "", err
	}
	public, private := filepath.Join(dir, "public.pem"), filepath.Join(dir, "private.pem")
	flag := fmt.Sprintf("--auth-token=jwt,pub-key=%s,priv-key=%s,sign-method=RS256,ttl=100h", public, private)
	return flag, errors.Join(
		writePem(public, "PUBLIC KEY", half),
		writePem(private, "RSA PRIVATE KEY", x509.MarshalPKCS1PrivateKey(key)),
	)
}

func writePem(path, kind string, bytes []byte) error {
	return os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: bytes}), 0o600)
}
