//! A connection to one member, logged in.

use std::sync::Arc;

use http::uri::PathAndQuery;
use tokio::sync::watch;
use tollgate::Error;
use tonic::client::Grpc;
use tonic::metadata::{Ascii, MetadataValue};
use tonic::transport::{Channel, Endpoint};
use tonic::{Request, Status};
use tonic_prost::ProstCodec;

use crate::failure::{self, Failure, Remedy};
use crate::messages::{AuthenticateRequest, Call, RangeRequest};
use crate::target::chain;

/// A handle: clones share the connection.
#[derive(Clone, Debug)]
pub(crate) struct Connection {
    channel: Channel,
    token: Option<MetadataValue<Ascii>>,
    /// Set when callers should stop waiting for answers.
    dead: Arc<watch::Sender<bool>>,
}

impl Connection {
    /// Connects, logs in, and checks that the member belongs to a cluster that answers, by a
    /// linearizable read of `key`.
    pub(crate) async fn open(
        member: &Endpoint,
        login: Option<&AuthenticateRequest>,
        key: &[u8],
    ) -> Result<Connection, Error> {
        let failed = |failure: Failure| failure::of_connect(member.uri(), &failure);
        let channel = member.connect().await;
        let channel = channel.map_err(|error| failed(Error::unavailable(chain(&error)).into()))?;
        let dead = Arc::new(watch::Sender::new(false));
        let mut connection = Connection { channel, token: None, dead };
        if let Some(login) = login {
            let answer = connection.send(login.clone()).await.map_err(failed)?;
            let no_text = |_| failed(Error::store("the token is not text", false).into());
            connection.token = Some(answer.token.parse().map_err(no_text)?);
        }
        connection.check(key).await.map_err(failed)?;
        Ok(connection)
    }

    /// The answer, unless the connection is [given up](Connection::bury) before it comes.
    pub(crate) async fn send<C: Call>(&self, message: C) -> Result<C::Answer, Failure> {
        let mut dead = self.dead.subscribe();
        tokio::select! {
            biased;
            answer = self.unary(message) => answer.map_err(|status| failure::of_status(&status)),
            _ = dead.wait_for(|dead| *dead) => {
                let error = Error::lost("the connection was given up");
                Err(Failure { error, remedy: Remedy::NextMember })
            }
        }
    }

    /// The connection is silent: callers stop waiting for its answers.
    pub(crate) fn bury(&self) {
        self.dead.send_replace(true);
    }

    /// Checks with a linearizable read, which needs a quorum.
    pub(crate) async fn check(&self, key: &[u8]) -> Result<(), Failure> {
        let read = RangeRequest { key: key.to_vec(), keys_only: true, ..RangeRequest::default() };
        self.send(read).await.map(drop)
    }

    async fn unary<C: Call>(&self, message: C) -> Result<C::Answer, Status> {
        let mut request = Request::new(message);
        let metadata = request.metadata_mut();
        // A member that has lost its leader reports that immediately, and surely executes nothing.
        metadata.insert("hasleader", MetadataValue::from_static("true"));
        if let Some(token) = &self.token {
            metadata.insert("token", token.clone());
        }
        // A long list of long keys is a large answer that was requested.
        let mut grpc = Grpc::new(self.channel.clone()).max_decoding_message_size(usize::MAX);
        grpc.ready().await.map_err(|error| Status::from_error(Box::new(error)))?;
        let path = PathAndQuery::from_static(C::PATH);
        let answer = grpc.unary(request, path, ProstCodec::default()).await?;
        Ok(answer.into_inner())
    }
}
