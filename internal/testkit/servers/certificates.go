package servers

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

// Certificates are PEM files for TLS on 127.0.0.1 and localhost.
type Certificates struct {
	CA                    string // the authority's certificate
	ServerCert, ServerKey string
	ServerPair            string // key and certificate in one file, as Kafka wants them
	ClientCert, ClientKey string // common name "client"
	authority             *x509.Certificate
	authorityKey          *ecdsa.PrivateKey
	dir                   string
}

// NewCertificates makes an authority in dir, with a certificate for a server
// and one for a client. They last a day.
func NewCertificates(dir string) (*Certificates, error) {
	c := &Certificates{dir: dir}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("make a key: %w", err)
	}
	template := subject("tidemark test authority")
	template.IsCA, template.BasicConstraintsValid = true, true
	template.KeyUsage = x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, fmt.Errorf("make an authority: %w", err)
	}
	if c.authority, err = x509.ParseCertificate(der); err != nil {
		return nil, fmt.Errorf("read the authority: %w", err)
	}
	c.authorityKey = key
	if c.CA, err = c.write("ca.pem", block("CERTIFICATE", der)); err != nil {
		return nil, err
	}
	if c.ServerCert, c.ServerKey, err = c.issue("server", x509.ExtKeyUsageServerAuth); err != nil {
		return nil, err
	}
	if c.ClientCert, c.ClientKey, err = c.issue("client", x509.ExtKeyUsageClientAuth); err != nil {
		return nil, err
	}
	cert, err := os.ReadFile(c.ServerCert)
	if err != nil {
		return nil, err
	}
	pair, err := os.ReadFile(c.ServerKey)
	if err != nil {
		return nil, err
	}
	c.ServerPair, err = c.write("server-pair.pem", append(pair, cert...))
	return c, err
}

// issue signs a certificate for 127.0.0.1 and localhost.
func (c *Certificates) issue(name string, usage x509.ExtKeyUsage) (certFile, keyFile string, err error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return "", "", fmt.Errorf("make a key: %w", err)
	}
	template := subject(name)
	template.KeyUsage = x509.KeyUsageDigitalSignature
	template.ExtKeyUsage = []x509.ExtKeyUsage{usage}
	template.DNSNames = []string{"localhost"}
	template.IPAddresses = []net.IP{net.IPv4(127, 0, 0, 1)}
	der, err := x509.CreateCertificate(rand.Reader, template, c.authority, key.Public(), c.authorityKey)
	if err != nil {
		return "", "", fmt.Errorf("sign the certificate of %s: %w", name, err)
	}
	pkcs8, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return "", "", fmt.Errorf("write the key of %s: %w", name, err)
	}
	if certFile, err = c.write(name+".pem", block("CERTIFICATE", der)); err != nil {
		return "", "", err
	}
	keyFile, err = c.write(name+"-key.pem", block("PRIVATE KEY", pkcs8))
	return certFile, keyFile, err
}

func (c *Certificates) write(name string, data []byte) (string, error) {
	path := filepath.Join(c.dir, name)
	if err := os.WriteFile(path, data, 0o600); err != nil {
		return "", fmt.Errorf("write a certificate: %w", err)
	}
	return path, nil
}

func block(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}

func subject(name string) *x509.Certificate {
	now := time.Now()
	return &x509.Certificate{
		SerialNumber: big.NewInt(now.UnixNano()),
		Subject:      pkix.Name{CommonName: name},
		NotBefore:    now.Add(-time.Hour),
		NotAfter:     now.Add(24 * time.Hour),
	}
}
