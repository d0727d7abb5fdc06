//! `bowline gateway start`.

use std::io::Write as _;
use std::process::ExitCode;

use config::GatewayFlags;
use logging::LogConfig;
use prometheus::Registry;
use proxy::gateway::{Gateway, GatewayError, GatewaySettings};
use proxy::{SrvSettings, discover};

/// Runs the gateway until the process ends.
pub(super) fn run(flags: &GatewayFlags, args: &[String]) -> ExitCode {
    let logs = match super::start_logs(&LogConfig::default()) {
        Ok(logs) => logs,
        Err(code) => return code,
    };
    tracing::info!(?args, "Running: ");
    let ended = serve(flags);
    logs.flush(logging::SHUTDOWN_FLUSH_MAX);
    // Compat: as in etcd, invalid settings are reported on standard output.
    let _ = match ended {
        Ok(()) => Ok(()),
        Err(Failure::Gateway(error @ (GatewayError::Bind(_) | GatewayError::Serve(_)))) => {
            writeln!(std::io::stderr(), "{error}")
        }
        Err(Failure::Gateway(error)) => writeln!(std::io::stdout(), "{error}"),
        Err(Failure::Discovery(error)) => writeln!(std::io::stderr(), "{error}"),
    };
    ExitCode::FAILURE
}

/// The reason a gateway has ended.
enum Failure {
    Gateway(GatewayError),
    Discovery(String),
}

fn serve(flags: &GatewayFlags) -> Result<(), Failure> {
    let srv = SrvSettings {
        domain: flags.discovery_srv.clone(),
        service_name: flags.discovery_srv_name.clone(),
        trusted_ca_file: super::path(&flags.trusted_ca_file),
        insecure: flags.insecure_discovery,
    };
    let metrics = tls::Metrics::new(&Registry::new())
        .map_err(|error| Failure::Discovery(error.to_string()))?;
    let discovered = discover(&srv, &discovery::SystemDns::default(), &metrics);
    let settings = GatewaySettings {
        listen_addr: flags.listen_addr.clone(),
        discovered: discovered.map_err(Failure::Discovery)?,
        endpoints: flags.endpoints.clone(),
        retry_delay: flags.retry_delay,
    };
    let gateway = Gateway::bind(&settings).map_err(Failure::Gateway)?;
    logging::notify_ready();
    gateway.serve().map_err(Failure::Gateway)
}
