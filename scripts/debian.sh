# How scripts/etcd and scripts/promtool get a program of Debian's without root: sourced, not run.

# The mirror that this machine's own apt uses: none is named here. (cat, since mawk ends at the first file that is missing.)
mirror() {
  {
    cat /etc/apt/sources.list.d/*.sources 2>/dev/null | awk 'tolower($1) == "uris:" { for (i = 2; i <= NF; i++) print $i }'
    cat /etc/apt/sources.list /etc/apt/sources.list.d/*.list 2>/dev/null |
      awk '$1 == "deb" { for (i = 2; i <= NF; i++) if ($i ~ /^[a-z+]+:/) { print $i; break } }'
  } | grep -E '/debian(\.list|/[0-9]+T[0-9]+Z)?/?$' | head -n 1
}

keyring() {
  local file
  for file in /usr/share/keyrings/debian-archive-keyring.{gpg,pgp}; do
    if [ -r "$file" ]; then
      echo "$file"
      return
    fi
  done
}

# Downloads packages of a suite into a directory and unpacks them there, below root/. Apt's state is all private.
fetch() { # directory, mirror, suite, packages ...
  local work="$1" mirror="$2" suite="$3" package
  shift 3
  mkdir -p "$work/lists/partial" "$work/archives/partial" "$work/root"
  printf 'deb [signed-by=%s] %s %s main\n' "$(keyring)" "$mirror" "$suite" >"$work/sources.list"
  local options=(-q -o "Dir::Etc::sourcelist=$work/sources.list" -o Dir::Etc::sourceparts=/dev/null
    -o "Dir::State::lists=$work/lists" -o "Dir::Cache=$work" -o Debug::NoLocking=true -o APT::Sandbox::User=)
  cd "$work" && apt-get "${options[@]}" update && apt-get "${options[@]}" download "$@" || return
  for package in ./*.deb; do
    dpkg-deb -x "$package" "$work/root" || return
  done
}
