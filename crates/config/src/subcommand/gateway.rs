//! The flags of `gateway start`.

use super::table::verb;

verb! {
    /// The flags of `gateway start`.
    GatewayFlags = "gateway" start, "start the gateway" {
        "discovery-srv" discovery_srv: Text = "",
            "Domain with SRV records of the endpoints.";
        "discovery-srv-name" discovery_srv_name: Text = "",
            "Suffix of the service names in the SRV records.";
        "endpoints" endpoints: Strings = "127.0.0.1:2379",
            "Endpoints of the cluster, unless SRV records name some.";
        "insecure-discovery" insecure_discovery: Bool = "false",
            "Accept endpoints from SRV records without TLS.";
        "listen-addr" listen_addr: Text = "127.0.0.1:23790",
            "Address to listen on.";
        "retry-delay" retry_delay: Duration = "1m",
            "Interval between attempts to reach a failed endpoint.";
        "trusted-ca-file" trusted_ca_file: Text = "",
            "CAs of the certificates of endpoints from SRV records.";
    }
}
