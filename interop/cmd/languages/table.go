package main

// language is a program, and so a client library.
type language struct {
	name    string
	command []string
	// lacks says for which modes the library is not made, and why.
	lacks map[string]string
}

// enough is why a program is not asked for in the brief modes.
const enough = "a library that only asks otherwise for what others ask, too"

// languages are all of them. Commands are run in the folder of interop; lib/languages.sh puts there
// what they need.
var languages = []language{
	{name: "go", command: []string{"bin/programs/go"}},
	{name: "raw", command: []string{"bin/programs/raw"}, lacks: map[string]string{"tls-auth": enough, "jwt": enough}},
	{
		name:    "curl",
		command: []string{"bash", "languages/curl/check.sh"},
		lacks:   map[string]string{"tls-auth": "the gateway knows nobody by a certificate", "jwt": enough},
	},
	{name: "etcd3", command: []string{"bin/programs/python-old/bin/python", "-uB", "languages/python/etcd3_check.py"}},
	{
		name:    "etcd3gw",
		command: []string{"bin/programs/python-new/bin/python", "-uB", "languages/python/etcd3gw_check.py"},
		lacks:   map[string]string{"tls-auth": "the gateway knows nobody by a certificate", "jwt": enough},
	},
	{
		name:    "aetcd",
		command: []string{"bin/programs/python-new/bin/python", "-uB", "languages/python/aetcd_check.py"},
		lacks: map[string]string{
			"tls": "aetcd opens insecure channels and no others", "tls-auth": "likewise", "jwt": enough,
		},
	},
	{name: "node", command: []string{"env", "NODE_PATH=bin/programs/node/node_modules", "node", "languages/node/check.js"}},
	{name: "java", command: []string{
		"java", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-cp", "bin/programs/java/classes:bin/programs/java/jars/*", "Check",
	}},
	{name: "rust", command: []string{"bin/programs/rust/release/check"}},
}
