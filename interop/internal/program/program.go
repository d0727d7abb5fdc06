// Package program implements the protocol of the Go programs below languages with cmd/languages,
// which starts them.
package program

import (
	"bufio"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
	"strings"
)

var input = bufio.NewReader(os.Stdin)

// Mode is plain, tls, auth, tls-auth or jwt.
func Mode() string { return os.Getenv("MODE") }

// HasUsers reports whether the server has auth enabled.
func HasUsers() bool { return os.Getenv("USERNAME") != "" }

// IsBrief reports whether to skip the steps that other modes cover.
func IsBrief() bool { return os.Getenv("BRIEF") != "" }

// Endpoint returns the server's client address.
func Endpoint() string { return os.Getenv("ENDPOINT") }

// Step prints the result of a step.
func Step(name, format string, args ...any) {
	fmt.Printf("%s: %s\n", name, strings.ReplaceAll(fmt.Sprintf(format, args...), "\n", "\\n"))
}

// Ask sends a command to cmd/languages and returns its response.
func Ask(request string) string {
	fmt.Println("@" + request)
	answer, err := input.ReadString('\n')
	Must(err)
	return strings.TrimSuffix(answer, "\n")
}

// Must exits the program on an error.
func Must(err error) {
	if err != nil {
		panic(err)
	}
}

// Got returns a result, or exits the program on an error.
func Got[T any](result T, err error) T {
	Must(err)
	return result
}

// TLS returns the TLS configuration, or nil in plaintext.
func TLS() *tls.Config {
	if os.Getenv("CACERT") == "" {
		return nil
	}
	pair := Got(tls.LoadX509KeyPair(os.Getenv("CERT"), os.Getenv("KEY")))
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(Got(os.ReadFile(os.Getenv("CACERT"))))
	return &tls.Config{Certificates: []tls.Certificate{pair}, RootCAs: pool}
}
