// Command chains writes chains.json: certificate chains, and for each the verdict of Go's crypto/x509 with the options
// that the API server uses for client certificates (KeyUsages: ClientAuth). Run `go run main.go > chains.json`.
package main

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/json"
	"math/big"
	mathrand "math/rand"
	"os"
	"time"
)

// now is the time at which every chain is judged.
var now = time.Date(2026, 6, 1, 12, 0, 0, 0, time.UTC)

type entity struct {
	template *x509.Certificate
	key      crypto.Signer
	der      []byte
}

type testCase struct {
	Name          string   `json:"name"`
	Roots         [][]byte `json:"roots"`
	Leaf          []byte   `json:"leaf"`
	Intermediates [][]byte `json:"intermediates"`
	// Refusal is Go's error; empty where Go accepts the chain.
	Refusal string `json:"refusal"`
}

type option func(*x509.Certificate)

func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

func ecKey(curve elliptic.Curve) crypto.Signer { return must(ecdsa.GenerateKey(curve, rand.Reader)) }
func rsaKey(bits int) crypto.Signer            { return must(rsa.GenerateKey(rand.Reader, bits)) }
func p256() crypto.Signer                      { return ecKey(elliptic.P256()) }

var serial int64

func newTemplate(name string, isCA bool, options ...option) *x509.Certificate {
	serial++
	template := &x509.Certificate{
		SerialNumber:          big.NewInt(serial),
		Subject:               pkix.Name{CommonName: name},
		NotBefore:             now.Add(-time.Hour),
		NotAfter:              now.Add(24 * time.Hour),
		BasicConstraintsValid: true,
		IsCA:                  isCA,
		MaxPathLen:            -1,
	}
	if isCA {
		template.KeyUsage = x509.KeyUsageCertSign
	} else {
		template.KeyUsage = x509.KeyUsageDigitalSignature
		template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	}
	for _, apply := range options {
		apply(template)
	}
	return template
}

// sign issues a certificate in the issuer's name with any key: the issuer's own, or another for a forgery.
func sign(template *x509.Certificate, key crypto.Signer, issuer *x509.Certificate, issuerKey crypto.Signer) *entity {
	parent := *issuer
	parent.PublicKey = nil
	der := must(x509.CreateCertificate(rand.Reader, template, &parent, key.Public(), issuerKey))
	if parsed, err := x509.ParseCertificate(der); err == nil {
		template.SubjectKeyId = parsed.SubjectKeyId
	}
	return &entity{template: template, key: key, der: der}
}

func rootWith(key crypto.Signer, name string, options ...option) *entity {
	template := newTemplate(name, true, options...)
	return sign(template, key, template, key)
}
func root(name string, options ...option) *entity { return rootWith(p256(), name, options...) }
func (e *entity) issueWith(key crypto.Signer, name string, isCA bool, options ...option) *entity {
	return sign(newTemplate(name, isCA, options...), key, e.template, e.key)
}
func (e *entity) ca(name string, options ...option) *entity {
	return e.issueWith(p256(), name, true, options...)
}
func (e *entity) leaf(options ...option) *entity {
	return e.issueWith(p256(), "jane", false, options...)
}
func (e *entity) forged(name string, isCA bool, options ...option) *entity {
	return sign(newTemplate(name, isCA, options...), p256(), e.template, p256())
}

func pathLen(n int) option {
	return func(c *x509.Certificate) { c.MaxPathLen, c.MaxPathLenZero = n, n == 0 }
}
func usage(usages ...x509.ExtKeyUsage) option {
	return func(c *x509.Certificate) { c.ExtKeyUsage = usages }
}
func keyUsage(bits x509.KeyUsage) option { return func(c *x509.Certificate) { c.KeyUsage = bits } }
func expired(c *x509.Certificate) {
	c.NotBefore, c.NotAfter = now.Add(-48*time.Hour), now.Add(-time.Second)
}
func tomorrow(c *x509.Certificate)      { c.NotBefore = now.Add(time.Second) }
func noConstraints(c *x509.Certificate) { c.BasicConstraintsValid, c.IsCA = false, false }
func notCA(c *x509.Certificate)         { c.IsCA, c.MaxPathLen, c.MaxPathLenZero = false, -1, false }
func dnsName(name string) option        { return func(c *x509.Certificate) { c.DNSNames = []string{name} } }
func permits(domain string) option {
	return func(c *x509.Certificate) {
		c.PermittedDNSDomainsCritical, c.PermittedDNSDomains = true, []string{domain}
	}
}
func signature(algorithm x509.SignatureAlgorithm) option {
	return func(c *x509.Certificate) { c.SignatureAlgorithm = algorithm }
}
func extension(critical bool) option {
	return func(c *x509.Certificate) {
		c.ExtraExtensions = []pkix.Extension{{Id: asn1.ObjectIdentifier{1, 2, 3, 4}, Critical: critical, Value: []byte{5, 0}}}
	}
}

var cases []testCase

// add judges a chain: the leaf, then what the client sends along.
func add(name string, roots []*entity, leaf *entity, intermediates ...*entity) {
	options := x509.VerifyOptions{
		Roots:         x509.NewCertPool(),
		Intermediates: x509.NewCertPool(),
		CurrentTime:   now,
		KeyUsages:     []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	one := testCase{Name: name, Leaf: leaf.der, Intermediates: [][]byte{}}
	for _, r := range roots {
		one.Roots = append(one.Roots, r.der)
		options.Roots.AddCert(must(x509.ParseCertificate(r.der)))
	}
	for _, i := range intermediates {
		one.Intermediates = append(one.Intermediates, i.der)
		if parsed, err := x509.ParseCertificate(i.der); err == nil {
			options.Intermediates.AddCert(parsed)
		}
	}
	parsed, err := x509.ParseCertificate(leaf.der)
	if err == nil {
		_, err = parsed.Verify(options)
	}
	if err != nil {
		one.Refusal = err.Error()
	}
	cases = append(cases, one)
}

func named() {
	a, other := root("a"), root("other")
	one := []*entity{a}
	mid := a.ca("mid")
	client, server, anyUsage := x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageAny

	add("a leaf under the root", one, a.leaf())
	add("a leaf under the second of two roots", []*entity{other, a}, a.leaf())
	add("a leaf of another authority", one, other.leaf())
	add("a leaf under an intermediate", one, mid.leaf(), mid)
	add("a leaf under an intermediate that is not sent", one, mid.leaf())
	low := mid.ca("low")
	add("two intermediates, in order", one, low.leaf(), low, mid)
	add("two intermediates, out of order, among others", one, low.leaf(), other.ca("x"), mid, other, low)
	add("two roots of one name", []*entity{root("a"), a}, a.leaf())
	add("the leaf is itself a root", one, a)
	add("the root is sent along", one, a.leaf(), a)
	add("no common name, organization only", one, a.leaf(func(c *x509.Certificate) { c.Subject = pkix.Name{Organization: []string{"ops"}} }))

	add("a forged leaf signature", one, a.forged("jane", false))
	add("a forged intermediate signature", one, a.forged("mid", true).leaf(), a.forged("mid", true))
	fake := a.forged("mid", true)
	add("a forged intermediate with a true leaf", one, fake.leaf(), fake)
	add("a leaf forged in the name of a true intermediate", one, mid.forged("jane", false), mid)

	add("a leaf of tomorrow", one, a.leaf(tomorrow))
	add("an expired leaf", one, a.leaf(expired))
	oldMid, newMid := a.ca("m", expired), a.ca("m", tomorrow)
	add("an expired intermediate", one, oldMid.leaf(), oldMid)
	add("an intermediate of tomorrow", one, newMid.leaf(), newMid)
	oldRoot := root("old", expired)
	add("an expired root", []*entity{oldRoot}, oldRoot.leaf())
	key := p256()
	renewedOld, renewed := a.issueWith(key, "renewed", true, expired), a.issueWith(key, "renewed", true)
	add("an expired intermediate and its renewal", one, renewed.leaf(), renewedOld, renewed)

	zero := root("zero", pathLen(0))
	add("path length 0 at the root, no intermediate", []*entity{zero}, zero.leaf())
	zeroMid := zero.ca("m")
	add("path length 0 at the root, one intermediate", []*entity{zero}, zeroMid.leaf(), zeroMid)
	short := a.ca("short", pathLen(0))
	below := short.ca("below")
	add("path length 0 at an intermediate, no further one", one, short.leaf(), short)
	add("path length 0 at an intermediate, a further one", one, below.leaf(), short, below)
	oneStep := root("one", pathLen(1))
	first := oneStep.ca("first")
	second := first.ca("second")
	add("path length 1, one intermediate", []*entity{oneStep}, first.leaf(), first)
	add("path length 1, two intermediates", []*entity{oneStep}, second.leaf(), first, second)

	add("a leaf for servers", one, a.leaf(usage(server)))
	add("a leaf for any usage", one, a.leaf(usage(anyUsage)))
	add("a leaf without usages", one, a.leaf(usage()))
	add("a leaf for servers and clients", one, a.leaf(usage(server, client)))
	serverMid, clientMid := a.ca("s", usage(server)), a.ca("c", usage(client))
	add("an intermediate for servers", one, serverMid.leaf(), serverMid)
	add("an intermediate for clients", one, clientMid.leaf(), clientMid)
	serverRoot := root("sr", usage(server))
	add("a root for servers", []*entity{serverRoot}, serverRoot.leaf())

	add("an intermediate that is not a CA", one, a.ca("n", notCA).leaf(), a.ca("n", notCA))
	pretender := a.issueWith(p256(), "pretender", false)
	add("a leaf that acts as an authority", one, pretender.leaf(), pretender)
	bare := a.ca("bare", noConstraints)
	add("an intermediate without basic constraints", one, bare.leaf(), bare)
	noSign := a.ca("nosign", keyUsage(x509.KeyUsageDigitalSignature))
	add("an intermediate that may not sign certificates", one, noSign.leaf(), noSign)
	noUsage := a.ca("nousage", keyUsage(0))
	add("an intermediate without key usage", one, noUsage.leaf(), noUsage)
	noSignRoot := root("nosignroot", keyUsage(x509.KeyUsageDigitalSignature))
	add("a root that may not sign certificates", []*entity{noSignRoot}, noSignRoot.leaf())

	add("an unknown critical extension on the leaf", one, a.leaf(extension(true)))
	add("an unknown extension on the leaf that is not critical", one, a.leaf(extension(false)))
	critical := a.ca("critical", extension(true))
	add("an unknown critical extension on an intermediate", one, critical.leaf(), critical)

	constrained := a.ca("constrained", permits("example.com"))
	add("name constraints, a leaf without alternative names", one, constrained.leaf(), constrained)
	add("name constraints, a leaf outside them", one, constrained.leaf(dnsName("elsewhere.org")), constrained)
	add("name constraints, a leaf inside them", one, constrained.leaf(dnsName("a.example.com")), constrained)

	rsaRoot := rootWith(rsaKey(2048), "rsa")
	add("RSA 2048 with SHA-256", []*entity{rsaRoot}, rsaRoot.leaf())
	add("RSA with PSS", []*entity{rsaRoot}, rsaRoot.leaf(signature(x509.SHA256WithRSAPSS)))
	add("RSA with SHA-512", []*entity{rsaRoot}, rsaRoot.leaf(signature(x509.SHA512WithRSA)))
	add("RSA with SHA-1", []*entity{rsaRoot}, rsaRoot.leaf(signature(x509.SHA1WithRSA)))
	p384 := a.issueWith(ecKey(elliptic.P384()), "p384", true)
	add("an intermediate with a P-384 key", one, p384.leaf(), p384)
	p521 := a.issueWith(ecKey(elliptic.P521()), "p521", true)
	add("an intermediate with a P-521 key", one, p521.leaf(), p521)
	huge := a.issueWith(rsaKey(8192), "huge", true)
	add("an intermediate with an RSA 8192 key", one, huge.leaf(), huge)

	var same []*entity
	self := rootWith(ecKey(elliptic.P521()), "same")
	for range 8 {
		same = append(same, self.issueWith(self.key, "same", true))
	}
	add("eight intermediates of one subject and key", one, self.leaf(), same...)
	var ring []*entity
	for range 8 {
		ring = append(ring, a.forged("a", true))
	}
	add("eight intermediates in the name of the root", one, ring[0].leaf(), ring...)
	x, y := p256(), p256()
	xByY := sign(newTemplate("x", true), x, newTemplate("y", true), y)
	yByX := sign(newTemplate("y", true), y, newTemplate("x", true), x)
	add("two intermediates that vouch for each other", one, xByY.leaf(), xByY, yByX)
}

// random builds chains whose properties are drawn at random, most of them harmless, so that every rule meets the others.
func random(count int) {
	source := mathrand.New(mathrand.NewSource(7))
	draw := func(options ...option) option { return options[source.Intn(len(options))] }
	harmless := func(*x509.Certificate) {}
	for number := range count {
		options := func(isCA bool) []option {
			when := draw(harmless, harmless, harmless, harmless, harmless, harmless, harmless, expired, tomorrow)
			use := draw(harmless, harmless, harmless, usage(x509.ExtKeyUsageClientAuth), usage(x509.ExtKeyUsageAny), usage(x509.ExtKeyUsageServerAuth))
			if !isCA {
				return []option{when, use}
			}
			length := draw(harmless, harmless, harmless, pathLen(0), pathLen(1), pathLen(2))
			mark := draw(harmless, harmless, harmless, harmless, harmless, harmless, harmless, notCA, keyUsage(x509.KeyUsageCRLSign))
			return []option{when, use, length, mark}
		}
		top := root("r", options(true)...)
		issuer, sent := top, []*entity{}
		for range source.Intn(4) {
			key, name := p256(), string(rune('a'+source.Intn(3)))
			next := issuer.issueWith(key, name, true, options(true)...)
			if source.Intn(8) == 0 {
				next = issuer.forged(name, true, options(true)...)
			}
			if source.Intn(5) == 0 { // The same authority, certified a second time.
				sent = append(sent, issuer.issueWith(next.key, name, true))
			}
			sent = append(sent, next)
			issuer = next
		}
		last := issuer.leaf(options(false)...)
		source.Shuffle(len(sent), func(i, j int) { sent[i], sent[j] = sent[j], sent[i] })
		add("random "+string(rune('0'+number/10))+string(rune('0'+number%10)), []*entity{top}, last, sent...)
	}
}

func main() {
	named()
	random(70)
	encoder := json.NewEncoder(os.Stdout)
	encoder.SetIndent("", " ")
	if err := encoder.Encode(map[string]any{"now": now, "cases": cases}); err != nil {
		panic(err)
	}
}
