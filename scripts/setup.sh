# What scripts/run, scripts/test and scripts/flapd share: sourced, not run. All noise goes to stderr.
root="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"

say() { printf '%s: %s\n' "${0##*/}" "$*" >&2; }

need_node() {
  if ! command -v node >/dev/null || ! node -e 'const [a, b] = process.versions.node.split("."); process.exit(a > 20 || (a == 20 && b >= 15) ? 0 : 1)'; then
    say "node 20.15 or later is needed; here is $(node --version 2>/dev/null || echo none)"
    exit 69
  fi
}

# Two at once must not install or build over each other.
locked() {
  if command -v flock >/dev/null; then
    (exec 9>"$root/.setup.lock" && flock 9 && "$@" 9>&-)
  else
    "$@"
  fi
}

install_packages() {
  local stamp="$root/node_modules/.flapd-lock"
  if [ ! -f "$stamp" ] || ! cmp -s "$root/package-lock.json" "$stamp"; then
    say "installing packages (npm ci) ..."
    (cd "$root" && npm ci --no-audit --no-fund --ignore-scripts) >&2
    cp "$root/package-lock.json" "$stamp"
  fi
}

build_dist() {
  local main="$root/dist/cli/main.js"
  if [ ! -f "$main" ] || [ -n "$(find "$root/src" "$root/tsconfig.json" "$root/tsconfig.build.json" -newer "$main" -print -quit)" ]; then
    say "building ..."
    (cd "$root" && rm -rf dist && npm run --silent build) >&2
    chmod +x "$main"
    touch "$main"
  fi
}

prepare() {
  need_node
  locked install_packages
  locked build_dist
}
