package main

// language is a program that uses one client library.
type language struct {
	name    string
	command []string
	// lacks maps the modes that the library does not support to the reason.
	lacks map[string]string
}

// enough is the reason for leaving a program out of the brief modes.
const enough = "other libraries cover these modes"

// languages lists all programs. Commands run in the directory interop; lib/languages.sh installs
// what they need.
var languages = []language{
	{name: "go", command: []string{"bin/programs/go"}},
	{name: "raw", command: []string{"bin/programs/raw"}, lacks: map[string]string{"tls-auth": enough, "jwt": enough}},
	{
		name:    "curl",
		command: []string{"bash", "languages/curl/check.sh"},
		lacks:   map[string]string{"tls-auth": "the gateway does not authenticate by certificate", "jwt": enough},
	},
	{name: "etcd3", command: []string{"bin/programs/python-old/bin/python", "-uB", "languages/python/etcd3_check.py"}},
	{
		name:    "etcd3gw",
		command: []string{"bin/programs/python-new/bin/python", "-uB", "languages/python/etcd3gw_check.py"},
		lacks:   map[string]string{"tls-auth": "the gateway does not authenticate by certificate", "jwt": enough},
	},
	{
		name:    "aetcd",
		command: []string{"bin/programs/python-new/bin/python", "-uB", "languages/python/aetcd_check.py"},
		lacks: map[string]string{
			"tls": "aetcd opens only insecure channels", "tls-auth": "aetcd opens only insecure channels", "jwt": enough,
		},
	},
	{name: "node", command: []string{"env", "NODE_PATH=bin/programs/node/node_modules", "node", "languages/node/check.js"}},
	{name: "java", command: []string{
		"java", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-cp", "bin/programs/java/classes:bin/programs/java/jars/*", "Check",
	}},
	{name: "rust", command: []string{"bin/programs/rust/release/check"}},
}
