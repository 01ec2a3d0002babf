printf 'version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 44\n' > $T/model.safetensors; exg inspect $T/model.safetensors; exg verify $T/model.safetensors
