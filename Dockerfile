# flapd in a container. It needs the host's network namespace (--network host) to see the host's interfaces, and the
# directories of its sockets and its journal: /run/flapd and /var/lib/flapd.

FROM node:20-bookworm-slim AS build
WORKDIR /build
COPY package.json package-lock.json .npmrc ./
# The one native package brings its binaries along: nothing is compiled, no install script runs.
RUN npm ci --ignore-scripts
COPY tsconfig.json tsconfig.build.json ./
COPY src ./src
RUN npm run build && npm prune --omit=dev --ignore-scripts

FROM node:20-bookworm-slim
LABEL org.opencontainers.image.title="flapd" \
      org.opencontainers.image.description="Endpoint status reporter for dense hypervisors" \
      org.opencontainers.image.licenses="Apache-2.0"
ENV NODE_ENV=production
RUN groupadd --system flapd && useradd --system --gid flapd --home-dir /var/lib/flapd --shell /usr/sbin/nologin flapd \
    && install -d -o flapd -g flapd -m 0750 /run/flapd && install -d -o flapd -g flapd -m 0700 /var/lib/flapd
WORKDIR /opt/flapd
COPY --from=build /build/package.json ./
COPY --from=build /build/node_modules ./node_modules
COPY --from=build /build/dist ./dist
COPY LICENSE README.md ./
USER flapd
EXPOSE 9889
VOLUME ["/var/lib/flapd"]
HEALTHCHECK --interval=10s --timeout=3s --start-period=20s --retries=3 \
    CMD ["node", "-e", "fetch('http://127.0.0.1:9889/readyz').then((r) => process.exit(r.ok ? 0 : 1), () => process.exit(1))"]
ENTRYPOINT ["node", "--enable-source-maps", "/opt/flapd/dist/cli/main.js"]
CMD ["run"]
