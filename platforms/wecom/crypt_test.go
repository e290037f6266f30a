package wecom

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"strings"
	"testing"

	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/relay"
)

const (
	ourToken = "callbacktoken"
	ourAES   = "abcdefghijklmnopqrstuvwxyz0123456789ABCDEFG" // its last character has stray bits
	ourCorp  = "ww0123456789abcdef"
	ourTime  = "1767225600"
	ourNonce = "1372623149"
	ourXML   = `<xml><ToUserName><![CDATA[ww0123456789abcdef]]></ToUserName><FromUserName><![CDATA[ann]]></FromUserName><CreateTime>1767225600</CreateTime><MsgType><![CDATA[text]]></MsgType><Content><![CDATA[hello]]></Content><MsgId>7300000000000000001</MsgId><AgentID>1000002</AgentID></xml>`
	ourBody  = "Q3stYC6hdFzMh9T8HCvyDFUfyNuVGup/dLg2XeML76egeWqqQOq6OWA3lihpaTPdrBSe34xfHGdGKPTWstEe7b7AxTXg6a/+zXyDBlbr0gDeA9J92Z+0JznCnChYbTItAtOr5h2w6opmP5/QkK/ulc4Rf0F8UsVNvzxdnfdB0z38gUi98ltRRy+PzvmE3BgZIc2NPdk3zF7NarCcvZyJdZlTDzJpuZYbx2J16coIK/SkhdnB8M0qzFgOllygvh0YsHoCRF7jvtYCFNnsKWsmbhuwPiqqssA8VzKHsCHOdt6p2PbMywwCt+gVNq2MtuBoG9fRaCxF2w++cTymPOBGf1LxvHIn1PcYqJ3mCLoa/Ky496iRcxcXprtf4ZiwQ35PkZV8GYClwMkVweTjIqp8/ceJWcS6OHMxzGB8z5cX4os="
	ourSign  = "fe6002151c779e9e81444d81e5bedeefa5fd45d0"
)

// TestCryptVectors: Tencent's own, and one that its package computed.
func TestCryptVectors(t *testing.T) {
	for name, v := range map[string]struct{ token, key, receiver, at, nonce, encrypted, sign, want string }{
		"Tencent's": {
			"QDG6eK", "jWmYm7qr5nMoAUwZRjGtBxmz3KA1tkAj3ykkR6q2B2C", "wx5823bf96d3bd56c7", "1409659589", "263014780",
			"P9nAzCzyDtyTWESHep1vC5X9xho/qYX3Zpb4yKa9SKld1DsH3Iyt3tP3zNdtp+4RPcs8TgAE7OaBO+FZXvnaqQ==",
			"5c45ff5e21c57e6ad56bac8758b79b1d9ac89fd3", "1616140317555161061",
		},
		"ours": {ourToken, ourAES, ourCorp, ourTime, ourNonce, ourBody, ourSign, ourXML},
	} {
		t.Run(name, func(t *testing.T) {
			key, err := aesKey(relay.NewSecret([]byte(v.key)))
			if err != nil {
				t.Fatal(err)
			}
			if !signed(v.sign, v.token, v.at, v.nonce, v.encrypted) {
				t.Fatal("not verified")
			}
			got, err := decrypt(key, v.encrypted, v.receiver)
			if err != nil || string(got) != v.want {
				t.Fatalf("%q, %v", got, err)
			}
			if _, err := decrypt(key, v.encrypted, v.receiver+"x"); err != errCipher {
				t.Errorf("for another receiver: %v", err)
			}
			for at := range len(v.sign) * 8 {
				if signed(flipped(v.sign, at), v.token, v.at, v.nonce, v.encrypted) {
					t.Fatalf("bit %d of the signature may change", at)
				}
			}
			for at := range len(v.encrypted) * 8 {
				if signed(v.sign, v.token, v.at, v.nonce, flipped(v.encrypted, at)) {
					t.Fatalf("bit %d of what was encrypted may change", at)
				}
			}
		})
	}
}

// encrypted is text for receiver, as WeCom encrypts it, with a length and a padding of choice.
func encrypted(key, text []byte, receiver string, length int, pad func([]byte) []byte) string {
	plain := append([]byte("0123456789abcdef"), binary.BigEndian.AppendUint32(nil, uint32(length))...)
	plain = pad(append(append(plain, text...), receiver...))
	block, _ := aes.NewCipher(key)
	out := make([]byte, len(plain))
	cipher.NewCBCEncrypter(block, key[:aes.BlockSize]).CryptBlocks(out, plain)
	return base64.StdEncoding.EncodeToString(out)
}

func padded(b []byte) []byte {
	n := padTo - len(b)%padTo
	return append(b, bytes.Repeat([]byte{byte(n)}, n)...)
}

// TestWhatCannotBeDecrypted gets one answer, whatever is wrong with it.
func TestWhatCannotBeDecrypted(t *testing.T) {
	key, _ := aesKey(relay.NewSecret([]byte(ourAES)))
	text := []byte("hello")
	if got, err := decrypt(key, encrypted(key, text, ourCorp, len(text), padded), ourCorp); err != nil || string(got) != "hello" {
		t.Fatalf("%q, %v", got, err)
	}
	last := func(n byte) func([]byte) []byte {
		return func(b []byte) []byte {
			b = padded(b)
			b[len(b)-1] = n
			return b
		}
	}
	for name, c := range map[string]string{
		"empty":          "",
		"no base64":      "!!!!",
		"no whole block": base64.StdEncoding.EncodeToString(make([]byte, 33)),
		"one block":      base64.StdEncoding.EncodeToString(make([]byte, 16)),
		"padding 0":      encrypted(key, text, ourCorp, len(text), last(0)),
		"padding 33":     encrypted(key, text, ourCorp, len(text), last(33)),
		"padding that differs": encrypted(key, text, ourCorp, len(text), func(b []byte) []byte {
			b = padded(b)
			b[len(b)-2]++
			return b
		}),
		"too long a length":  encrypted(key, text, ourCorp, 1<<30, padded),
		"too short a length": encrypted(key, text, ourCorp, 4, padded),
		"another receiver":   encrypted(key, text, "ww1", len(text), padded),
		"no receiver":        encrypted(key, text, "", len(text), padded),
	} {
		if got, err := decrypt(key, c, ourCorp); err != errCipher {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
}

func FuzzDecrypt(f *testing.F) {
	key, _ := aesKey(relay.NewSecret([]byte(ourAES)))
	f.Add(ourBody)
	f.Add("")
	f.Fuzz(func(t *testing.T, s string) {
		got, err := decrypt(key, s, ourCorp)
		if err != nil && (err != errCipher || got != nil) {
			t.Errorf("%q, %v", got, err)
		}
	})
}

// FuzzElements: whatever somebody sends, it is read or refused, and what is read makes an event with all it needs.
func FuzzElements(f *testing.F) {
	f.Add([]byte(ourXML))
	f.Add([]byte(`<!DOCTYPE x [<!ENTITY a "b">]><xml><MsgType>&a;</MsgType></xml>`))
	f.Add([]byte(doc("<MsgType>event</MsgType><Event>click</Event><EventKey>/status</EventKey>")))
	f.Add([]byte(doc("<MsgType>location</MsgType><Location_X>1</Location_X><Location_Y>2</Location_Y>")))
	f.Add([]byte(strings.Replace(doc("<MsgType>text</MsgType><Content>x</Content>"), "1767225600", "1099511627775", 1)))
	f.Fuzz(func(t *testing.T, doc []byte) {
		m, err := elements(doc)
		if err != nil {
			if err != errMessage || m != nil {
				t.Errorf("%v, %v", m, err)
			}
			return
		}
		p := &Bot{corp: ourCorp, agent: ourAgent}
		if ev, err := p.event(m); ev != nil {
			_, user, _ := strings.Cut(string(ev.Source.ChatID), ":")
			if err != nil || ev.ID == "" || len(ev.ID) > 200 || ev.At.IsZero() || string(ev.Source.UserID) != string(ev.Source.ChatID) || !isUser(user) {
				t.Errorf("%+v, %v", ev, err)
			}
			if _, err := json.Marshal(ev); err != nil {
				t.Error(err)
			}
		}
	})
}

// FuzzRequest: nobody gets past the signature.
func FuzzRequest(f *testing.F) {
	p := opened(f, &api{}, ourSecret)
	f.Add("GET", "/webhooks/wecom_callback/a?msg_signature=5c45ff5e21c57e6ad56bac8758b79b1d9ac89fd3&timestamp=1409659589&nonce=263014780&echostr=P9nA", []byte{})
	f.Add("POST", "/webhooks/wecom_callback/a?msg_signature="+ourSign+"&timestamp="+ourTime+"&nonce="+ourNonce, []byte("<xml><Encrypt>"+ourBody+"</Encrypt></xml>"))
	f.Fuzz(func(t *testing.T, method, target string, body []byte) {
		a := p.Receive(t.Context(), platforms.HookRequest{Method: method, Target: target, Body: body, Verified: func() { t.Error("verified") }})
		if a.Status != 401 || string(a.Body) != `{"error":"unauthorized"}` {
			t.Errorf("%d %s", a.Status, a.Body)
		}
	})
}
