//! The stream between those who charge and those who want to know.

use std::{net::SocketAddr, time::Duration};

use async_nats::jetstream::{
    self, Context,
    consumer::{AckPolicy, PullConsumer, pull},
    stream::{Config, Stream},
};
use idem::BoxError;

/// The topic of the messages.
pub(crate) const CHARGED: &str = "order.charged";

/// Nobody listens there: what has no address says this one.
pub(crate) const NOWHERE: SocketAddr =
    SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 0);

/// Connects, also to a server that is down for a while.
///
/// # Errors
/// If the URL is none.
pub(crate) async fn connect(url: &str) -> Result<Context, BoxError> {
    let options = async_nats::ConnectOptions::new().retry_on_initial_connect();
    let mut context = jetstream::new(options.connect(url).await?);
    context.set_timeout(Duration::from_secs(1));
    Ok(context)
}

/// The stream. It forgets at once which messages it was sent, so that whatever is published twice arrives twice.
///
/// # Errors
/// If the server does not answer.
pub(crate) async fn stream(context: &Context) -> Result<Stream, BoxError> {
    let config = Config {
        name: "orders".to_owned(),
        subjects: vec!["order.>".to_owned()],
        duplicate_window: Duration::from_millis(100),
        ..Config::default()
    };
    Ok(context.get_or_create_stream(config).await?)
}

/// The consumer's place in the stream, which the server keeps.
///
/// # Errors
/// If the server does not answer.
pub(crate) async fn place(context: &Context) -> Result<PullConsumer, BoxError> {
    let config = pull::Config {
        durable_name: Some("mailer".to_owned()),
        ack_policy: AckPolicy::Explicit,
        ack_wait: Duration::from_secs(1),
        ..pull::Config::default()
    };
    Ok(stream(context).await?.get_or_create_consumer("mailer", config).await?)
}
