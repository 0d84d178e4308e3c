//! The HTTP side: a checkout is accepted once the record of its payment is there.

use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use axum::routing::{get, post};
use axum::{Json, Router};
use outbox_sqlite::outbox;
use ruststream::memory::MemoryPublisher;
use ruststream::prelude::*;
use ruststream::runtime::HealthProbe;
use serde::{Deserialize, Serialize};
use tokio::net::TcpListener;

use crate::database::Database;
use crate::error::{Error, with_causes};
use crate::handlers::{Checkout, Payment};
use crate::record::PaymentOutbox;
use crate::service::{Settings, service};

/// What publishes payments outside the handlers.
pub type Payments<D> = outbox::TrackedPublisher<MemoryPublisher, outbox::Handle<D, PaymentOutbox>>;

/// What `GET /health` answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Health {
    /// Whether the outbox tracks messages.
    pub outbox: bool,
    /// Whether every subscription consumes.
    pub ready: bool,
}

/// Runs the service with its HTTP endpoint at `listen` until Ctrl+C, or until the service stops.
///
/// # Errors
///
/// The service or the endpoint did not start, or did not stop cleanly.
pub async fn serve<D: Database>(settings: Settings, listen: &str) -> Result<(), Error>
where
    PaymentOutbox: outbox::Publish<D>,
{
    let service = service::<D>(settings);
    let running = service.app.start().await?;
    let publisher = running.publisher(service.publisher).await?;
    let router = router(service.tracking.wrap(publisher), running.health());
    let listener = TcpListener::bind(listen).await?;
    println!("listening on http://{}", listener.local_addr()?);
    let stopping = running.stopping();
    axum::serve(listener, router)
        .with_graceful_shutdown(async move {
            tokio::select! {
                _ = tokio::signal::ctrl_c() => {}
                () = stopping => {}
            }
        })
        .await?;
    running.shutdown().await?;
    Ok(())
}

/// The endpoints.
pub fn router<D: Database>(payments: Payments<D>, health: HealthProbe) -> Router
where
    PaymentOutbox: outbox::Publish<D>,
{
    Router::new()
        .route("/checkout", post(checkout::<D>))
        .with_state(Arc::new(payments))
        .route("/health", get(report))
        .with_state(health)
}

async fn checkout<D: Database>(
    State(payments): State<Arc<Payments<D>>>,
    Json(checkout): Json<Checkout>,
) -> Result<StatusCode, (StatusCode, String)>
where
    PaymentOutbox: outbox::Publish<D>,
{
    // In a task of its own: a client that hangs up would drop this future, perhaps between the
    // record and the send.
    let publish = tokio::spawn(async move {
        let payment = Payment::from(checkout);
        let published = payments.message(&payment).publish().await;
        published.map_err(|error| with_causes(&error))
    });
    match publish.await {
        Ok(Ok(())) => Ok(StatusCode::ACCEPTED),
        Ok(Err(error)) => Err((StatusCode::SERVICE_UNAVAILABLE, error)),
        Err(error) => Err((StatusCode::INTERNAL_SERVER_ERROR, error.to_string())),
    }
}

async fn report(State(health): State<HealthProbe>) -> (StatusCode, Json<Health>) {
    let subscriptions = health.subscriptions();
    let ready = health.is_running() && subscriptions.active == subscriptions.started;
    let status = if ready {
        StatusCode::OK
    } else {
        StatusCode::SERVICE_UNAVAILABLE
    };
    let outbox = outbox::is_on();
    (status, Json(Health { outbox, ready }))
}
