//! The dashboard at the end of a demo, in a browser.

use std::{
    process::{Command, Stdio},
    sync::Arc,
    thread,
};

use ::access::Access;
use anyhow::Context;
use event::Clock;
use table::Table;
use tokio::net::TcpListener;

use crate::{
    access::Asking,
    config::Config,
    listening::asked_to_stop,
    up::{Options, run_as},
};

/// What shows an address in the browser that people use, by their system.
const OPENERS: &[&str] = if cfg!(target_os = "macos") {
    &["open"]
} else if cfg!(windows) {
    &["rundll32", "url.dll,FileProtocolHandler"]
} else {
    &["xdg-open"]
};

/// Where the dashboard will be, and who may see it.
pub(super) struct Place {
    listener: TcpListener,
    access: Option<Arc<Access>>,
}

/// Listens where the services would.
///
/// # Errors
/// When somebody listens there already, or others than this machine could call and nobody would be asked who they are.
pub(super) async fn listen(config: &Config, table: &Arc<dyn Table>) -> anyhow::Result<Place> {
    let address = config.listen.value;
    let access = Asking::default().access(table, address.ip(), config.oidc.settings.as_ref(), true).await?;
    let listener = TcpListener::bind(address).await.with_context(|| {
        format!(
            "cannot listen on {address}; --listen names another address, and 127.0.0.1:0 takes a free port"
        )
    })?;
    Ok(Place { listener, access })
}

/// Serves the table until the process is asked to stop, and shows the figures of a workspace in a browser.
///
/// # Errors
/// Those of the services.
pub(super) async fn show(place: Place, table: Arc<dyn Table>, workspace: &str) -> anyhow::Result<()> {
    let Place { listener, access } = place;
    let address = listener.local_addr()?;
    let url = format!("http://{address}/#/w/{workspace}/figures");
    println!("\nThe dashboard is at {url} until ctrl-c.");
    // What opens a browser may last as long as the browser, so nobody waits for it.
    thread::spawn(move || {
        if !opened(&url) {
            eprintln!("No browser could be opened; open that address yourself.");
        }
    });
    run_as(listener, table, Options { access, ..Options::new(Clock::system()) }, asked_to_stop()).await
}

/// Whether a browser could be asked to show it.
fn opened(url: &str) -> bool {
    let mut command = Command::new(OPENERS[0]);
    command.args(&OPENERS[1..]).arg(url);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}
