# What scripts/run, scripts/test and scripts/flapd share: sourced, not run. All noise goes to stderr.
# Every step returns its failure itself: "set -e" means nothing inside of an "if".
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
    (cd "$root" && npm ci --no-audit --no-fund --ignore-scripts) >&2 || return
    cp "$root/package-lock.json" "$stamp"
  fi
}

# Beside the old one, which a running flapd still loads its workers from; it takes its place only where all compiles.
build_dist() {
  local main="$root/dist/cli/main.js" new="$root/dist.new"
  if [ ! -f "$main" ] || [ -n "$(find "$root/src" "$root/tsconfig.json" "$root/tsconfig.build.json" -newer "$main" -print -quit)" ]; then
    say "building ..."
    rm -rf "$new" "$root/dist.old" || return
    # What is changed while it compiles is newer than this, and built the next time.
    mkdir "$new" && touch "$new/.started" || return
    (cd "$root" && npm run --silent build -- --outDir "$new" --tsBuildInfoFile "$new/.tsbuildinfo") >&2 || return
    chmod +x "$new/cli/main.js" && touch -r "$new/.started" "$new/cli/main.js" || return
    [ ! -e "$root/dist" ] || mv -T "$root/dist" "$root/dist.old" || return
    mv -T "$new" "$root/dist" || return
    rm -rf "$root/dist.old"
  fi
}

prepare() {
  need_node
  locked install_packages || exit
  locked build_dist || exit
}
