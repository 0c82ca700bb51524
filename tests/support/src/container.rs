//! A server in a container, for machines with Docker and without server programs.

use std::{env, sync::LazyLock, time::Duration};

use sqlx::{Connection, PgConnection, postgres::PgConnectOptions};
use testcontainers::{
    ContainerAsync, GenericImage, ImageExt, TestcontainersError, core::IntoContainerPort,
    runners::AsyncRunner,
};
use tokio::{
    runtime::{Builder, Runtime},
    time::timeout,
};

use crate::{
    ServerError,
    process::{free_port, on_own_thread, poll},
    watchdog::{REMOVE_CONTAINER, Watchdog},
};

/// Pulling an image counts.
const START_WITHIN: Duration = Duration::from_mins(5);
const READY_WITHIN: Duration = Duration::from_mins(1);

/// The Docker client keeps its connections in the runtime that first used it, so all containers share one that
/// outlives every test.
static DOCKER: LazyLock<Runtime> = LazyLock::new(|| {
    let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build();
    runtime.unwrap_or_else(|error| panic!("no runtime for Docker: {error}"))
});

/// A running container; removed when dropped, or (where there is a `docker` command) when this process dies.
#[derive(Debug)]
pub(crate) struct Container {
    /// `Some` until dropped.
    running: Option<ContainerAsync<GenericImage>>,
    host: String,
    port: u16,
    _watchdog: Watchdog,
}

impl Container {
    /// Runs the image and waits until the server in it answers.
    pub(crate) fn start(settings: &[(String, String)]) -> Result<Self, ServerError> {
        on_own_thread(|| {
            let container = DOCKER.block_on(run(settings))?;
            container.wait_ready()?;
            Ok(container)
        })
    }

    pub(crate) fn log(&self) -> String {
        on_own_thread(|| {
            DOCKER.block_on(async {
                let Some(container) = &self.running else { return String::new() };
                let mut log = container.stdout_to_vec().await.unwrap_or_default();
                log.extend(container.stderr_to_vec().await.unwrap_or_default());
                String::from_utf8_lossy(&log).into_owned()
            })
        })
    }

    /// Starts it again on the same port.
    pub(crate) fn launch(&self) -> Result<(), ServerError> {
        on_own_thread(|| {
            if let Some(container) = &self.running {
                DOCKER.block_on(container.start())?;
            }
            self.wait_ready()
        })
    }

    /// Stops it in order; `within` zero is a kill.
    pub(crate) fn stop(&self, within: Duration) -> Result<(), ServerError> {
        let seconds = i32::try_from(within.as_secs()).unwrap_or(i32::MAX);
        on_own_thread(|| {
            if let Some(container) = &self.running {
                DOCKER.block_on(container.stop_with_timeout(Some(seconds)))?;
            }
            Ok(())
        })
    }

    /// While an image prepares its first start it may listen on a socket only, and Docker's own port forwarding
    /// accepts before anybody listens: only an answer to a statement counts.
    fn wait_ready(&self) -> Result<(), ServerError> {
        let options = self.options();
        let answers = async || {
            let mut connection = PgConnection::connect_with(&options).await?;
            connection.ping().await
        };
        let look = async || match timeout(Duration::from_secs(5), answers()).await {
            Ok(Ok(())) => Some(true),
            // A server that has ended will not answer later either.
            Ok(Err(_)) | Err(_) => (!self.is_running().await).then_some(false),
        };
        match poll(READY_WITHIN, || DOCKER.block_on(look())) {
            Some(true) => Ok(()),
            Some(false) | None => Err(ServerError::Container {
                reason: format!("the server does not answer; its log: {}", self.log()),
            }),
        }
    }

    async fn is_running(&self) -> bool {
        match &self.running {
            Some(container) => container.is_running().await.unwrap_or(false),
            None => false,
        }
    }

    pub(crate) fn options(&self) -> PgConnectOptions {
        PgConnectOptions::new().host(&self.host).port(self.port).username("postgres").database("postgres")
    }
}

async fn run(settings: &[(String, String)]) -> Result<Container, ServerError> {
    let image = env::var("IDEM_TEST_POSTGRES_IMAGE").unwrap_or_else(|_| "postgres:17".to_owned());
    let (name, tag) = image.rsplit_once(':').unwrap_or((&image, "latest"));
    // A port chosen here stays the same when the container is stopped and started.
    let port = free_port().map_err(|error| ServerError::Container { reason: error.to_string() })?;
    let arguments = settings.iter().flat_map(|(name, value)| ["-c".to_owned(), format!("{name}={value}")]);
    let container = GenericImage::new(name, tag)
        .with_env_var("POSTGRES_HOST_AUTH_METHOD", "trust")
        .with_cmd(std::iter::once("postgres".to_owned()).chain(arguments))
        .with_mapped_port(port, 5432.tcp())
        .with_startup_timeout(START_WITHIN)
        .start()
        .await?;
    let host = container.get_host().await?.to_string();
    let watchdog = Watchdog::start(REMOVE_CONTAINER, container.id())
        .map_err(|error| ServerError::Container { reason: error.to_string() })?;
    Ok(Container { running: Some(container), host, port, _watchdog: watchdog })
}

impl Drop for Container {
    fn drop(&mut self) {
        if let Some(container) = self.running.take() {
            // What fails here is tried again by the watchdog.
            drop(on_own_thread(|| DOCKER.block_on(container.rm())));
        }
    }
}

impl From<TestcontainersError> for ServerError {
    fn from(error: TestcontainersError) -> Self {
        Self::Container { reason: error.to_string() }
    }
}
