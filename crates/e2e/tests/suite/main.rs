//! The server as its users meet it: started, asked, killed, started again.

mod damage;
mod files;
mod flags;
mod http;
mod kill;
mod limits;
mod logs;
mod metrics;
mod quota;
mod refusals;
mod serving;
mod slow_reader;
mod stop;
