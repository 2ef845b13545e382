# Almanac as a container: one image for every role, about the size of its binary and the C library.
#
#   docker build -t almanac .
#   docker run --read-only -v almanac:/data -p 7171:7171 -e ALMANAC_ADMIN_TOKEN almanac
#
# ALMANAC_ADMIN_TOKEN holds a token of `almanac token generate`: others reach the container, so it does not start without.
#
# The steps are in deploy/image, so that they can be tried where there is no container engine.

# Tags move. To build what was built before, name both images by digest, which `docker buildx imagetools inspect` tells:
#   docker build --build-arg BUILD_IMAGE=rust@sha256:... --build-arg BASE_IMAGE=gcr.io/distroless/cc-debian12@sha256:... .

ARG RUST_VERSION=1.95
ARG BUILD_IMAGE=rust:${RUST_VERSION}-slim-bookworm
ARG BASE_IMAGE=gcr.io/distroless/cc-debian12:nonroot

FROM ${BUILD_IMAGE} AS build
WORKDIR /src
COPY deploy/image deploy/image
RUN deploy/image tools
COPY . .
RUN --mount=type=cache,target=/usr/local/cargo/registry \
    --mount=type=cache,target=/src/target \
    deploy/image build && deploy/image collect /image
RUN deploy/image check /image

# glibc, libgcc, certificates, a user without rights; no shell and no package manager.
FROM ${BASE_IMAGE}
COPY --from=build /image/usr/local/bin/almanac /usr/local/bin/almanac
COPY --from=build --chown=nonroot:nonroot /image/data /data

# Nothing is written but below /data, and there only by SQLite: with DynamoDB not even that.
WORKDIR /data
VOLUME /data
USER nonroot
ENV ALMANAC_LISTEN=0.0.0.0:7171
EXPOSE 7171
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=15s --timeout=5s --start-period=30s --retries=3 CMD ["/usr/local/bin/almanac", "health"]
ENTRYPOINT ["/usr/local/bin/almanac"]
CMD ["up"]
