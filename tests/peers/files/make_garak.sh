# Writes garak-* with garak and a generator and detectors that ask nobody: sh make_garak.sh
for arm in v2:Repeat v1:Blank; do
    garak --target_type "test.${arm#*:}" --probes test.Test --detectors always.Pass,always.Random --generations 2 \
        --report_prefix "garak-${arm%:*}"
done
