# An image of aiperf: the static program, licenses and the certificates of public authorities, without
# an operating system. Nothing runs as root.
#
#   docker build --tag aiperf .
#   docker run --rm aiperf demo
FROM rust:1.95-slim-bookworm AS build
RUN apt-get update \
 && apt-get install --yes --no-install-recommends ca-certificates musl-tools python3 \
 && rm -rf /var/lib/apt/lists/* \
 && rustup target add "$(uname -m)-unknown-linux-musl"
WORKDIR /aiperf
COPY . .
RUN cargo build --locked --release --bin aiperf --target "$(uname -m)-unknown-linux-musl" \
 && mkdir --parents /image/etc/ssl/certs /image/usr/local/bin /image/licenses /image/artifacts \
 && mkdir --mode 1777 /image/tmp \
 && cp /etc/ssl/certs/ca-certificates.crt /image/etc/ssl/certs/ \
 && cp target/*-unknown-linux-musl/release/aiperf /image/usr/local/bin/ \
 && cp LICENSE /image/licenses/ \
 && scripts/third-party "$(uname -m)-unknown-linux-musl" > /image/licenses/THIRD-PARTY-LICENSES.txt \
 && chown 65532:65532 /image/artifacts

FROM scratch
COPY --from=build /image /
# A numeric ID, so that Kubernetes can verify that it is not root.
USER 65532:65532
WORKDIR /artifacts
ENTRYPOINT ["/usr/local/bin/aiperf"]
CMD ["--help"]
