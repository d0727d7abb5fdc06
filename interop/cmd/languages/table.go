package main

// language is a program, and so a client library.
type language struct {
	name    string
	command []string
	// lacks says for which modes the library is not made, and why.
	lacks map[string]string
}

// languages are all of them. Commands are run in the folder of interop; lib/languages.sh puts there what they need.
var languages = []language{
	{name: "go", command: []string{"bin/programs/go"}},
	{name: "raw", command: []string{"bin/programs/raw"}},
	{name: "curl", command: []string{"bash", "languages/curl/check.sh"}},
	{name: "etcd3", command: []string{"bin/programs/python-old/bin/python", "-uB", "languages/python/etcd3_check.py"}},
	{name: "etcd3gw", command: []string{"bin/programs/python-new/bin/python", "-uB", "languages/python/etcd3gw_check.py"}},
	{
		name:    "aetcd",
		command: []string{"bin/programs/python-new/bin/python", "-uB", "languages/python/aetcd_check.py"},
		lacks:   map[string]string{"tls": "aetcd opens insecure channels and no others"},
	},
	{name: "node", command: []string{"env", "NODE_PATH=bin/programs/node/node_modules", "node", "languages/node/check.js"}},
	{name: "java", command: []string{
		"java", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-cp", "bin/programs/java/classes:bin/programs/java/jars/*", "Check",
	}},
	{name: "rust", command: []string{"bin/programs/rust/release/check"}},
}
