//! Reflection, as grpcurl uses it.

use super::*;
use prost::Message;
use prost_types::field_descriptor_proto::Type;
use prost_types::{FieldDescriptorProto, FileDescriptorProto, FileDescriptorSet};
use tonic::codegen::tokio_stream::{self, StreamExt};
use tonic_reflection::pb::{v1, v1alpha};

/// The messages of both versions are equal, in different modules.
macro_rules! ask {
    ($version:ident, $channel:expr, $request:expr) => {{
        use $version::server_reflection_client::ServerReflectionClient;
        use $version::server_reflection_request::MessageRequest::*;
        use $version::server_reflection_response::MessageResponse;
        let request = $version::ServerReflectionRequest {
            host: String::new(),
            message_request: Some($request),
        };
        let mut client = ServerReflectionClient::new($channel);
        let answers = client.server_reflection_info(tokio_stream::once(request)).await.unwrap();
        let answer = answers.into_inner().next().await.unwrap().unwrap();
        match answer.message_response.unwrap() {
            MessageResponse::ListServicesResponse(list) => {
                (list.service.into_iter().map(|service| service.name).collect(), Vec::new())
            }
            MessageResponse::FileDescriptorResponse(files) => {
                (Vec::<String>::new(), files.file_descriptor_proto)
            }
            other => panic!("{other:?}"),
        }
    }};
}

#[tokio::test]
async fn both_versions_list_and_describe_the_services() {
    let server = Server::start(Vec::new()).await;
    let (v1, _) = ask!(v1, server.channel().await, ListServices(String::new()));
    let (v1alpha, _) = ask!(v1alpha, server.channel().await, ListServices(String::new()));
    for names in [&v1, &v1alpha] {
        for name in [grpc::RATE_LIMIT_SERVICE, "grpc.health.v1.Health"] {
            assert!(names.iter().any(|listed| listed == name), "{name} in {names:?}");
        }
    }
    let symbol = || grpc::RATE_LIMIT_SERVICE.to_owned();
    let (_, v1) = ask!(v1, server.channel().await, FileContainingSymbol(symbol()));
    let (_, v1alpha) = ask!(v1alpha, server.channel().await, FileContainingSymbol(symbol()));
    assert_eq!(v1, v1alpha);
    let file = FileDescriptorProto::decode(&v1[0][..]).unwrap();
    assert_eq!(file.package(), "envoy.service.ratelimit.v3");
    assert_eq!(file.service[0].method[0].name(), "ShouldRateLimit");
}

/// Writes every field of a message with generated values, from its description alone.
fn made_up(files: &FileDescriptorSet, name: &str, out: &mut Vec<u8>) {
    let message = find(files, name);
    for field in &message.field {
        let tag = u32::try_from(field.number()).unwrap();
        match field.r#type() {
            Type::String => prost::encoding::string::encode(tag, &field.name().to_owned(), out),
            Type::Bytes => prost::encoding::bytes::encode(tag, &b"bytes".to_vec(), out),
            Type::Uint32 => prost::encoding::uint32::encode(tag, &7, out),
            Type::Uint64 => prost::encoding::uint64::encode(tag, &7, out),
            Type::Int64 => prost::encoding::int64::encode(tag, &7, out),
            Type::Int32 => prost::encoding::int32::encode(tag, &7, out),
            Type::Bool => prost::encoding::bool::encode(tag, &true, out),
            Type::Enum => prost::encoding::int32::encode(tag, &1, out),
            Type::Message if field.type_name() == ".google.protobuf.Struct" => {
                prost::encoding::message::encode(tag, &prost_types::Struct::default(), out);
            }
            Type::Message => made_up_inner(files, field, tag, out),
            other => panic!("{}: {other:?}", field.name()),
        }
    }
}

fn made_up_inner(
    files: &FileDescriptorSet,
    field: &FieldDescriptorProto,
    tag: u32,
    out: &mut Vec<u8>,
) {
    let mut inner = Vec::new();
    made_up(files, field.type_name(), &mut inner);
    prost::encoding::bytes::encode(tag, &inner, out);
}

fn find(files: &FileDescriptorSet, name: &str) -> prost_types::DescriptorProto {
    fn within(
        prefix: &str,
        messages: &[prost_types::DescriptorProto],
        name: &str,
    ) -> Option<prost_types::DescriptorProto> {
        messages.iter().find_map(|message| {
            let own = format!("{prefix}.{}", message.name());
            if own == name {
                return Some(message.clone());
            }
            within(&own, &message.nested_type, name)
        })
    }
    let all = files.file.iter();
    all.map(|file| (format!(".{}", file.package()), file))
        .find_map(|(package, file)| within(&package, &file.message_type, name))
        .unwrap_or_else(|| panic!("{name} is not described"))
}

#[test]
fn the_messages_are_those_of_the_description() {
    let files = FileDescriptorSet::decode(grpc::DESCRIPTORS).unwrap();
    let mut bytes = Vec::new();
    made_up(&files, ".envoy.service.ratelimit.v3.RateLimitRequest", &mut bytes);
    let request = RateLimitRequest::decode(&bytes[..]).unwrap();
    let entry = Entry { key: "key".into(), value: "value".into() };
    let limit = RateLimitOverride { requests_per_unit: 7, unit: 1 };
    let descriptor = RateLimitDescriptor {
        entries: vec![entry],
        limit: Some(limit),
        hits_addend: Some(7),
        is_negative_hits: true,
    };
    assert_eq!(
        request,
        RateLimitRequest { domain: "domain".into(), descriptors: vec![descriptor], hits_addend: 7 }
    );
    assert_eq!(request.encode_to_vec(), bytes, "no field is missing");
    let mut bytes = Vec::new();
    made_up(&files, ".envoy.service.ratelimit.v3.RateLimitResponse", &mut bytes);
    let response = RateLimitResponse::decode(&bytes[..]).unwrap();
    assert_eq!(response.statuses[0].current_limit.clone().unwrap().name, "name");
    // A raw value is the one field that is never sent; strings are sent instead.
    let raw = response.encode_to_vec();
    let headers = 2 * (b"bytes".len() + 2);
    assert_eq!(raw.len() + headers, bytes.len(), "no other field is missing");
}
