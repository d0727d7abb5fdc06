// Package program is what the Go programs below languages have in common: how
// they speak to cmd/languages, which has started them.
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

// HasUsers is whether the server asks who asks.
func HasUsers() bool { return os.Getenv("USERNAME") != "" }

// IsBrief is whether what the other modes have shown is left out.
func IsBrief() bool { return os.Getenv("BRIEF") != "" }

// Endpoint is where the server listens.
func Endpoint() string { return os.Getenv("ENDPOINT") }

// Step tells the result of a step.
func Step(name, format string, args ...any) {
	fmt.Printf("%s: %s\n", name, strings.ReplaceAll(fmt.Sprintf(format, args...), "\n", "\\n"))
}

// Ask has something done, and returns the answer.
func Ask(request string) string {
	fmt.Println("@" + request)
	answer, err := input.ReadString('\n')
	Must(err)
	return strings.TrimSuffix(answer, "\n")
}

// Must ends the program if something failed that should not.
func Must(err error) {
	if err != nil {
		panic(err)
	}
}

// Got is a result that must be there.
func Got[T any](result T, err error) T {
	Must(err)
	return result
}

// TLS is how to speak to the server, or nil if it is plaintext.
func TLS() *tls.Config {
	if os.Getenv("CACERT") == "" {
		return nil
	}
	pair := Got(tls.LoadX509KeyPair(os.Getenv("CERT"), os.Getenv("KEY")))
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(Got(os.ReadFile(os.Getenv("CACERT"))))
	return &tls.Config{Certificates: []tls.Certificate{pair}, RootCAs: pool}
}
