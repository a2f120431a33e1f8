//! The health service of gRPC: serving, until it is time to stop.

use tonic::codegen::BoxStream;
use tonic::codegen::tokio_stream::{self, StreamExt};
use tonic::{Request, Response, Status};
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_server;
use tonic_health::pb::{HealthCheckRequest, HealthCheckResponse};

use super::RATE_LIMIT_SERVICE;
use crate::net::Draining;

/// Says whether the whole server, or a service by its name, answers.
#[derive(Clone, Debug)]
pub(super) struct Health(pub(super) Draining);

impl Health {
    fn knows(service: &str) -> bool {
        matches!(service, "" | RATE_LIMIT_SERVICE)
    }
}

#[tonic::async_trait]
impl health_server::Health for Health {
    async fn check(
        &self,
        request: Request<HealthCheckRequest>,
    ) -> Result<Response<HealthCheckResponse>, Status> {
        let service = &request.get_ref().service;
        if !Health::knows(service) {
            return Err(Status::not_found(format!("service {service:?}: not one of this server")));
        }
        Ok(Response::new(says(status(!self.0.is_ready()))))
    }

    type WatchStream = BoxStream<HealthCheckResponse>;

    /// Ends when the server stops, so that watchers do not delay it.
    async fn watch(
        &self,
        request: Request<HealthCheckRequest>,
    ) -> Result<Response<BoxStream<HealthCheckResponse>>, Status> {
        let known = Health::knows(&request.get_ref().service);
        let draining = self.0.clone();
        let all = tokio_stream::iter([false, true]).then(move |at_the_end| {
            let mut draining = draining.clone();
            async move {
                if at_the_end {
                    draining.left().await;
                }
                Ok(says(if known { status(at_the_end) } else { ServingStatus::ServiceUnknown }))
            }
        });
        Ok(Response::new(Box::pin(all)))
    }
}

fn status(draining: bool) -> ServingStatus {
    if draining { ServingStatus::NotServing } else { ServingStatus::Serving }
}

fn says(status: ServingStatus) -> HealthCheckResponse {
    HealthCheckResponse { status: status.into() }
}
