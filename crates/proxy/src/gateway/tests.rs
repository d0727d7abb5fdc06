use super::*;

fn settings(listen: &str, endpoints: &[&str]) -> GatewaySettings {
    GatewaySettings {
        listen_addr: listen.to_owned(),
        discovered: Vec::new(),
        endpoints: endpoints.iter().map(|endpoint| (*endpoint).to_owned()).collect(),
        retry_delay: GoDuration::default(),
    }
}

fn refusal(listen: &str, endpoints: &[&str]) -> String {
    Gateway::bind(&settings(listen, endpoints)).unwrap_err().to_string()
}

/// The texts were printed by etcd 3.7.3, which takes port 0 for one that is no number.
#[test]
fn invalid_settings_are_refused_with_etcds_texts() {
    let any = "127.0.0.1:0";
    assert_eq!(refusal(any, &["a"]), "error parsing endpoint \"a\"");
    assert_eq!(refusal(any, &["127.0.0.1:x"]), "error parsing endpoint \"127.0.0.1:x\"");
    let one = ["127.0.0.1:39999"];
    assert_eq!(refusal("x", &one), "failed to validate listen address: x");
    assert_eq!(refusal(":39999", &one), "failed to resolve listen host: ");
    assert_eq!(
        refusal("127.0.0.1:39999", &["http://127.0.0.1:39999"]),
        "SRV or endpoint (127.0.0.1:39999->127.0.0.1:39999) should not resolve to the gateway listen addr (127.0.0.1:39999)"
    );
    assert_eq!(refusal(any, &[]), "no endpoints found");
}

#[test]
fn endpoints_may_have_a_scheme() {
    let bound = Gateway::bind(&settings("127.0.0.1:0", &["http://127.0.0.1:1", "[::1]:2"]));
    let bound = bound.unwrap();
    let addresses: Vec<String> = bound.remotes.iter().map(address).collect();
    assert_eq!(addresses, ["127.0.0.1:1", "[::1]:2"]);
    assert_eq!(bound.retry_delay.to_string(), "5m0s", "zero is etcd's default");
}

#[test]
fn discovered_endpoints_replace_the_given_ones() {
    let record = SrvRecord { priority: 1, weight: 2, target: "127.0.0.1".into(), port: 7 };
    let discovered = vec![ClientEndpoint { url: "http://127.0.0.1:7".into(), record }];
    let settings = GatewaySettings { discovered, ..settings("127.0.0.1:0", &["127.0.0.1:8"]) };
    let bound = Gateway::bind(&settings).unwrap();
    assert_eq!((bound.remotes.len(), bound.remotes[0].port), (1, 7));
}

#[test]
fn a_random_number_is_below_its_bound() {
    assert!((0..100).all(|_| random(3) < 3));
    assert_eq!((random(0), random(1)), (0, 0));
}
