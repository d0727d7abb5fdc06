//! What a member does by itself.
use crate::server::Server;
use std::time::Duration;
/// All chores.
#[derive(Debug)]
pub(crate) struct Chores(Server);
impl Chores {
    pub(crate) fn new(server: Server) -> Chores {
        Chores(server)
    }
    pub(crate) fn turn(&mut self, _: Duration) -> Duration {
        let _ = &self.0;
        Duration::from_secs(1)
    }
}
