//! The dashboard at the end of a demo, in a browser.

use std::{
    process::{Command, Stdio},
    sync::Arc,
    thread,
};

use ::access::Access;
use anyhow::Context;
use event::Clock;
use log::store::Store;
use table::Table;
use tokio::net::TcpListener;

use crate::{
    access::Asking,
    config::Config,
    listening::asked_to_stop,
    up::{Options, run_as},
};

/// Programs that open an address in the default browser of the system.
const OPENERS: &[&str] = if cfg!(target_os = "macos") {
    &["open"]
} else if cfg!(windows) {
    &["rundll32", "url.dll,FileProtocolHandler"]
} else {
    &["xdg-open"]
};

/// Listener and access of the dashboard.
pub(super) struct Place {
    listener: TcpListener,
    access: Option<Arc<Access>>,
}

/// Listens at the address of the services.
///
/// # Errors
/// If the address is taken, or other machines could call and no caller would be authenticated.
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

/// Serves the table until the process is asked to stop, and opens the metrics of a workspace in a browser.
///
/// # Errors
/// Those of the services.
pub(super) async fn show(place: Place, store: Arc<Store>, workspace: &str) -> anyhow::Result<()> {
    let Place { listener, access } = place;
    let address = listener.local_addr()?;
    let url = format!("http://{address}/#/w/{workspace}/overview");
    println!("\nThe dashboard is at {url} until ctrl-c.");
    // The opener may run as long as the browser, so it is not awaited.
    thread::spawn(move || {
        if !opened(&url) {
            eprintln!("No browser could be opened; open that address yourself.");
        }
    });
    run_as(listener, store, Options { access, ..Options::new(Clock::system()) }, asked_to_stop()).await
}

/// Asks a browser to show the address; returns true if that succeeded.
fn opened(url: &str) -> bool {
    let mut command = Command::new(OPENERS[0]);
    command.args(&OPENERS[1..]).arg(url);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}
